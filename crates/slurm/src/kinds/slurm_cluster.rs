//! SlurmCluster: a login node or a slurmrestd, how to get in, and what jobs there begin with. Its key is a Secret of its own
//! namespace, so that whoever may not read that namespace's Secrets cannot use it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use minik8s_api::{At, Cell, Column, FieldErrors, Resource, Strategy, fill, table};
use minik8s_meta::{api_version, kind, served_type};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::job_validation::{is_option_value, path_problem};
use super::slurmrestd::{self, Slurmrestd};

/// SlurmCluster is the login node of a Slurm cluster, or its REST daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.SlurmCluster")]
#[serde(rename_all = "camelCase")]
pub struct SlurmCluster {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<SlurmCluster>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<SlurmCluster>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is where it is and how to get in.
    #[serde(default)]
    pub spec: SlurmClusterSpec,
    /// status is what was found there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SlurmClusterStatus>,
}

/// SlurmClusterSpec is where a cluster is and how to get in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.SlurmClusterSpec")]
#[serde(rename_all = "camelCase")]
pub struct SlurmClusterSpec {
    /// host is the name or address of the login node. Required unless slurmrestd is given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// port of its ssh server. 22 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// user to log in as.
    pub user: String,
    /// hostKey is the server's public key, as `ssh-keyscan HOST` prints it, with or without the host's name; one a line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host_key: String,
    /// slurmrestd is how the cluster is reached where no login node can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurmrestd: Option<Slurmrestd>,
    /// secretRef is a Secret of this namespace with "ssh-privatekey" or "password", or "token" for slurmrestd.
    pub secret_ref: SecretReference,
    /// workDirectory of the jobs there, relative to the user's home unless absolute. ".minik8s" by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_directory: Option<String>,
    /// partition of jobs that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// account of jobs that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// modules of jobs that name none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
}

/// SecretReference names a Secret of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.SlurmSecretReference")]
pub struct SecretReference {
    /// name of the Secret.
    pub name: String,
}

/// SlurmClusterStatus is what was found when the cluster was last asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.SlurmClusterStatus")]
#[serde(rename_all = "camelCase", default)]
pub struct SlurmClusterStatus {
    /// observedGeneration is the generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// lastProbeTime is when the cluster was last asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// version of Slurm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// gpus of all nodes that can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
    /// partitions in Slurm's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionStatus>,
    /// conditions: Reachable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Gpus counts GPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.SlurmGPUs")]
pub struct Gpus {
    /// free ones.
    pub free: i64,
    /// all that there are.
    pub total: i64,
}

/// PartitionStatus is one partition of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.SlurmPartitionStatus")]
#[serde(rename_all = "camelCase")]
pub struct PartitionStatus {
    /// name of the partition.
    pub name: String,
    /// state, e.g. "up".
    pub state: String,
    /// nodes of it.
    pub nodes: i64,
    /// timeLimit of its jobs.
    pub time_limit: String,
    /// gpus of its nodes.
    pub gpus: Gpus,
}

served_type!(SlurmCluster: "minik8s.io" "v1" "SlurmCluster" "slurmclusters" NamespaceResourceScope);

impl SlurmCluster {
    /// Where the job with this UID has its files.
    pub fn directory(&self, uid: &str) -> String {
        let base = self.spec.work_directory.as_deref().unwrap_or(".minik8s");
        format!("{}/{uid}", base.trim_end_matches('/'))
    }
}

pub fn slurm_clusters() -> Resource {
    Resource::of::<SlurmCluster>(Clusters).short(&["slurm"]).status().counted()
}

struct Clusters;

impl Strategy for Clusters {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = fill::object(object, "spec") {
            if spec.get("slurmrestd").is_none_or(Value::is_null) {
                fill::field(spec, "port", 22);
            }
            fill::field(spec, "workDirectory", ".minik8s");
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let by_ssh = !spec.field("slurmrestd").exists();
        let names = [("host", ".-:_%"), ("user", "._-@")];
        for (name, allowed) in names.into_iter().filter(|(name, _)| by_ssh || *name == "user") {
            let field = spec.field(name);
            if field.need(errors) && !is_name(field.text(), allowed) {
                field.invalid(
                    errors,
                    format!("must begin with a letter or digit and hold only those and {allowed}"),
                );
            }
        }
        if spec.field("port").int().is_some_and(|port| !(1..=65535).contains(&port)) {
            spec.field("port").invalid(errors, "must be between 1 and 65535");
        }
        let key = spec.field("hostKey");
        if by_ssh
            && key.need(errors)
            && key.text().lines().filter(|line| !line.trim().is_empty()).any(|l| host_key(l).is_none())
        {
            key.invalid(errors, "must be public keys, one a line, as `ssh-keyscan HOST` prints them");
        }
        if !by_ssh {
            slurmrestd::validate(&spec, errors);
        }
        spec.field("secretRef").field("name").need_form(errors, minik8s_meta::format::subdomain);
        let folder = spec.field("workDirectory");
        if let Some(problem) = path_problem(folder.text().trim_start_matches('/')).filter(|_| folder.is_set())
        {
            folder.invalid(errors, problem);
        }
        for field in
            [spec.field("partition"), spec.field("account")].into_iter().chain(spec.field("modules").items())
        {
            if field.is_set() && !is_option_value(field.text()) {
                field.invalid(
                    errors,
                    "must not contain spaces, quotes or control characters, nor begin with '-'",
                );
            }
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(
            &["Name", "Host", "Reachable", "Partitions", "GPUs-Free", "Age"],
            &["Version", "Message"],
        ))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let reachable = conditions.into_iter().find(|condition| condition["type"] == "Reachable");
        let partitions = status["partitions"].as_array().into_iter().flatten();
        let partitions: Vec<&str> = partitions.filter_map(|partition| partition["name"].as_str()).collect();
        let gpus = match (status["gpus"]["free"].as_i64(), status["gpus"]["total"].as_i64()) {
            (Some(free), Some(total)) => format!("{free}/{total}"),
            _ => table::NONE.to_owned(),
        };
        let address = if spec["host"].is_string() { &spec["host"] } else { &spec["slurmrestd"]["url"] };
        vec![
            table::name(object),
            format!("{}@{}", table::text_or(&spec["user"], ""), table::text_or(address, "")).into(),
            reachable.map_or("Unknown".into(), |condition| condition["status"].clone()),
            if partitions.is_empty() { table::NONE.to_owned() } else { partitions.join(",") }.into(),
            gpus.into(),
            table::age(object, now),
            table::text_or(&status["version"], table::NONE).into(),
            reachable.map_or("".into(), |condition| condition["message"].clone()),
        ]
    }
}

/// Type and key of a line of known_hosts or of a public key file.
pub fn host_key(line: &str) -> Option<(&str, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| {
        ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"].iter().any(|prefix| word.starts_with(prefix))
    })?;
    let key = words.get(at + 1)?;
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    (at <= 1 && key.len() > 30 && key.chars().all(is_base64)).then_some((words[at], *key))
}

/// Not an option of ssh, and nothing that a shell or ssh's own files take for more than a name.
fn is_name(text: &str, besides: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || besides.contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBcPvvOwTzqAn3PPfJTfX0b0ZQzqYH8ZFYQy0W7kdI1q";

    fn errors(change: Value) -> Vec<String> {
        let mut object = json!({"spec": {"host": "login.example", "user": "me", "hostKey": KEY, "secretRef": {"name": "key"}}});
        for (field, value) in change.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        let resource = slurm_clusters();
        resource.strategy.default(&mut object);
        let mut errors = FieldErrors::default();
        resource.strategy.validate(&object, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn good_clusters_are_accepted() {
        for change in [
            json!({}),
            json!({"hostKey": format!("[login.example]:22 {KEY} comment\n{KEY}\n")}),
            json!({"host": "10.0.0.1", "port": 2222, "workDirectory": "/scratch/me", "partition": "dgx2"}),
        ] {
            assert_eq!(errors(change.clone()), Vec::<String>::new(), "{change}");
        }
    }

    #[test]
    fn bad_clusters_are_refused_at_their_field() {
        for (change, field) in [
            (json!({"host": "-oProxyCommand=id"}), "spec.host"),
            (json!({"host": "a b"}), "spec.host"),
            (json!({"host": ""}), "spec.host"),
            (json!({"user": "-l"}), "spec.user"),
            (json!({"user": "a\nb"}), "spec.user"),
            (json!({"port": 0}), "spec.port"),
            (json!({"hostKey": "nonsense"}), "spec.hostKey"),
            (json!({"secretRef": {"name": ""}}), "spec.secretRef.name"),
            (json!({"workDirectory": "../x"}), "spec.workDirectory"),
            (json!({"modules": ["-x"]}), "spec.modules[0]"),
        ] {
            let errors = errors(change.clone());
            assert!(errors.len() == 1 && errors[0].starts_with(field), "{change}: {errors:?}");
        }
    }
}
