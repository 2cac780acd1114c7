//! MeshPolicy: who may call a pod, and whether only pods that prove who they are may. What it must look like; what it
//! comes to for one pod is in [`compile`], what it says of one request in [`verdict`], and what is said of itself in
//! [`controller`].

mod compile;
pub mod controller;
pub mod verdict;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use minik8s_api::{At, Cell, Column, FieldErrors, Resource, Strategy, table};
use minik8s_meta::mesh::ProxyCounts;
use minik8s_meta::{api_version, kind, served_type};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use compile::{PodView, compile, is_about};

use crate::{kinds, pattern};

/// The policy of this namespace and name holds for all namespaces.
pub const CLUSTER_WIDE: (&str, &str) = ("kube-system", "default");

const MOST_RULES: usize = 64;
const MOST_ENTRIES: usize = 64;

/// MeshPolicy says who may call pods of its namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.MeshPolicy")]
#[serde(rename_all = "camelCase")]
pub struct MeshPolicy {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<MeshPolicy>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<MeshPolicy>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what the user wants.
    #[serde(default)]
    pub spec: MeshPolicySpec,
    /// status is who enforces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MeshPolicyStatus>,
}

/// MeshPolicySpec says which pods are meant, and who may call them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.MeshPolicySpec")]
#[serde(rename_all = "camelCase")]
pub struct MeshPolicySpec {
    /// selector of the pods; all of the namespace without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// mtls is Strict, so that only pods of the mesh are let in, or Permissive. The most specific policy that says it
    /// holds: with a selector, of the namespace, of the cluster (kube-system/default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtls: Option<String>,
    /// action of the rules: Allow, so that what no rule of any such policy allows is refused, or Deny. Allow by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// dryRun only counts what the rules would refuse.
    #[serde(default)]
    pub dry_run: bool,
    /// rules, of which one must match; without the field the policy is about mtls alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub rules: Option<Vec<MeshPolicyRule>>,
}

/// MeshPolicyStatus says who enforces the policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.MeshPolicyStatus")]
#[serde(rename_all = "camelCase")]
pub struct MeshPolicyStatus {
    /// observedGeneration is the generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// proxies of the pods that it is about that run, and those of them that enforce it.
    #[serde(default)]
    pub proxies: ProxyCounts,
    /// conditions: Programmed, which is true when all of them enforce it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// MeshPolicyRule matches a request by who sends it and what it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.MeshPolicyRule")]
#[serde(rename_all = "camelCase")]
pub struct MeshPolicyRule {
    /// from is who sends it; anybody without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<MeshPolicySource>,
    /// to is what it is; anything without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<MeshPolicyOperation>,
}

/// MeshPolicySource is who sends a request, proved by mTLS. All fields that are given must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.MeshPolicySource")]
#[serde(rename_all = "camelCase")]
pub struct MeshPolicySource {
    /// serviceAccounts as NAME, of the policy's namespace, or NAMESPACE/NAME.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub service_accounts: Vec<String>,
    /// namespaces of the senders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,
}

/// MeshPolicyOperation is what a request is. All fields that are given must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.MeshPolicyOperation")]
#[serde(rename_all = "camelCase")]
pub struct MeshPolicyOperation {
    /// methods of HTTP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub methods: Vec<String>,
    /// paths are regular expressions that the whole path, without its query, must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub paths: Vec<String>,
    /// ports of the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub ports: Vec<i32>,
}

served_type!(MeshPolicy: "minik8s.io" "v1" "MeshPolicy" "meshpolicies" NamespaceResourceScope);

impl Default for MeshPolicy {
    fn default() -> Self {
        MeshPolicy {
            api_version: api_version::<Self>(),
            kind: kind::<Self>(),
            metadata: ObjectMeta::default(),
            spec: MeshPolicySpec::default(),
            status: None,
        }
    }
}

/// By which acknowledgements of it are told from those of an earlier one: it changes with the spec alone.
pub fn revision(policy: &MeshPolicy) -> String {
    policy.metadata.generation.unwrap_or_default().to_string()
}

pub fn resource() -> Resource {
    Resource::of::<MeshPolicy>(MeshPolicies).status().counted()
}

struct MeshPolicies;

impl Strategy for MeshPolicies {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let (mtls, action) = (spec.field("mtls"), spec.field("action"));
        if mtls.is_set() {
            mtls.one_of(errors, &["Permissive", "Strict"]);
        }
        if action.is_set() {
            action.one_of(errors, &["Allow", "Deny"]);
        }
        let rules = spec.field("rules");
        if !mtls.is_set() && !rules.exists() {
            spec.required(errors, "give mtls, or rules, or both");
        }
        if rules.len() > MOST_RULES {
            rules.invalid(errors, format!("must have no more than {MOST_RULES} entries"));
        }
        if rules.is_empty() && action.text() == "Deny" {
            rules.required(errors, "say what is denied");
        }
        rules.items().for_each(|rule| validate_rule(&rule, errors));
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "mTLS", "Action", "Rules", "Dry-Run", "Proxies", "Programmed", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let has_rules = spec["rules"].is_array();
        let count = |field: &str| table::text_or(&status["proxies"][field], "0");
        let action =
            if has_rules { table::text_or(&spec["action"], "Allow") } else { table::NONE.to_owned() };
        vec![
            table::name(object),
            table::text_or(&spec["mtls"], table::NONE).into(),
            action.into(),
            table::count(&spec["rules"]).to_string().into(),
            (spec["dryRun"] == true).to_string().into(),
            format!("{}/{}", count("applied"), count("total")).into(),
            kinds::programmed(status).into(),
            table::age(object, now),
        ]
    }
}

fn validate_rule(rule: &At<'_>, errors: &mut FieldErrors) {
    let (from, to) = (rule.field("from"), rule.field("to"));
    for list in
        [from.field("serviceAccounts"), from.field("namespaces"), to.field("methods"), to.field("paths")]
    {
        if list.len() > MOST_ENTRIES {
            list.invalid(errors, format!("must have no more than {MOST_ENTRIES} entries"));
        }
    }
    for account in from.field("serviceAccounts").items() {
        let parts: Vec<&str> = account.text().split('/').collect();
        if parts.len() > 2 || parts.iter().any(|part| part.is_empty()) {
            account.invalid(errors, "must be NAME or NAMESPACE/NAME of a service account");
        }
    }
    for method in to.field("methods").items() {
        let text = method.text();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
            method.invalid(errors, "must be a method in capitals, such as GET");
        }
    }
    for path in to.field("paths").items() {
        if let Err(problem) = pattern::compile(path.text()) {
            path.invalid(errors, problem);
        }
    }
    for port in to.field("ports").items() {
        if !port.int().is_some_and(|number| (1..=65535).contains(&number)) {
            port.invalid(errors, "must be between 1 and 65535");
        }
    }
    for (side, at) in [("from", &from), ("to", &to)] {
        let is_empty = at.exists() && at.value.as_object().is_some_and(|object| object.is_empty());
        if is_empty {
            at.invalid(errors, format!("must not be empty: without {side} the rule matches all"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bad_policies_are_explained() {
        let check = |spec: Value, expected: &str| {
            let mut errors = FieldErrors::default();
            MeshPolicies.validate(&json!({"spec": spec}), &mut errors);
            let text = format!("{errors:?}");
            match expected {
                "" => assert_eq!(text, format!("{:?}", FieldErrors::default()), "{spec}"),
                expected => assert!(text.contains(expected), "{spec}: {text}"),
            }
        };
        check(json!({"mtls": "Strict"}), "");
        check(json!({"rules": []}), "");
        check(
            json!({"rules": [{"from": {"serviceAccounts": ["web", "shop/web"]}, "to": {"paths": ["/a.*"]}}]}),
            "",
        );
        check(json!({}), "give mtls, or rules");
        check(json!({"mtls": "strict"}), "Strict");
        check(json!({"action": "Deny"}), "say what is denied");
        check(json!({"rules": [{"from": {"serviceAccounts": ["a/b/c"]}}]}), "NAMESPACE/NAME");
        check(json!({"rules": [{"to": {"methods": ["get"]}}]}), "in capitals");
        check(json!({"rules": [{"to": {"paths": ["a(b"]}}]}), "unclosed group");
        check(json!({"rules": [{"to": {"ports": [0]}}]}), "between 1 and 65535");
        check(json!({"rules": [{"from": {}}]}), "matches all");
    }
}
