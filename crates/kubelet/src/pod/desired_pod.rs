//! A pod as the worker wants it: taken apart once per change of the API object.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use sha2::{Digest, Sha256};

use super::resize::amounts;
use crate::static_pods::{SOURCE, mirrored};

/// Upstream's default for pods that say nothing.
const DEFAULT_GRACE: i64 = 30;

#[derive(Debug, Clone)]
pub struct DesiredPod {
    pub pod: Arc<core::Pod>,
    pub uid: String,
    pub namespace: String,
    pub name: String,
    /// In start order: init containers and sidecars as listed, then the others, then ephemeral ones.
    pub containers: Vec<ContainerSpec>,
    /// How long containers may take to end.
    pub grace: Duration,
    /// Set once somebody deleted the pod.
    pub deleted: Option<Timestamp>,
    /// The pod ended before: nothing of it may start again.
    pub terminal: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ContainerSpec {
    pub kind: Kind,
    pub spec: core::Container,
    pub restart: RestartPolicy,
    pub hash: String,
    /// Requests and limits that can change while it runs, in a form to compare.
    pub resources: String,
    /// The container whose processes an ephemeral container wants to see.
    pub target: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that stays: it starts in its turn and ends after the main containers.
    Sidecar,
    Main,
    /// Added to a running pod, for debugging.
    Ephemeral,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    fn parse(text: Option<&str>) -> Option<Self> {
        match text? {
            "Always" => Some(RestartPolicy::Always),
            "OnFailure" => Some(RestartPolicy::OnFailure),
            "Never" => Some(RestartPolicy::Never),
            _ => None,
        }
    }

    pub fn restarts_after(self, exit_code: i32) -> bool {
        match self {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => exit_code != 0,
            RestartPolicy::Never => false,
        }
    }
}

impl ContainerSpec {
    /// Whether it starts again: the first of its own rules that fits says so, else its policy. An init container that ended
    /// well is done.
    pub fn restarts_after(&self, exit_code: i32) -> bool {
        let mut rules = self.spec.restart_policy_rules.iter().flatten();
        let is_done = self.kind == Kind::Init && exit_code == 0;
        !is_done && rules.any(|rule| fits(rule, exit_code)) || self.restart.restarts_after(exit_code)
    }
}

fn fits(rule: &core::ContainerRestartRule, exit_code: i32) -> bool {
    rule.exit_codes.as_ref().is_some_and(|codes| {
        let is_listed = codes.values.iter().flatten().any(|listed| *listed == exit_code);
        match codes.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    })
}

impl DesiredPod {
    pub fn new(pod: Arc<core::Pod>) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let meta = &pod.metadata;
        let policy = RestartPolicy::parse(spec.restart_policy.as_deref()).unwrap_or(RestartPolicy::Always);
        let mut containers = Vec::new();
        containers.extend(spec.init_containers.unwrap_or_default().into_iter().map(|c| init(c, policy)));
        containers.extend(spec.containers.into_iter().map(|c| main(c, policy)));
        containers.extend(spec.ephemeral_containers.unwrap_or_default().into_iter().filter_map(ephemeral));
        let deleted = meta.deletion_timestamp.as_ref().map(|time| time.0);
        let asked = meta.deletion_grace_period_seconds.filter(|_| deleted.is_some());
        let grace = asked.or(spec.termination_grace_period_seconds).unwrap_or(DEFAULT_GRACE);
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        DesiredPod {
            uid: identity(&pod),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            containers,
            grace: Duration::from_secs(grace.max(0) as u64),
            deleted,
            terminal: matches!(phase, Some("Succeeded" | "Failed")),
            pod,
        }
    }

    pub fn container(&self, name: &str) -> Option<&ContainerSpec> {
        self.containers.iter().find(|c| c.spec.name == name)
    }

    pub fn of_kind(&self, kind: Kind) -> impl DoubleEndedIterator<Item = &ContainerSpec> {
        self.containers.iter().filter(move |c| c.kind == kind)
    }

    pub fn spec(&self) -> Option<&core::PodSpec> {
        self.pod.spec.as_ref()
    }

    pub fn host_network(&self) -> bool {
        self.spec().and_then(|spec| spec.host_network).unwrap_or(false)
    }

    /// `web_default(1234…)`, as log lines and messages name a pod.
    pub fn full_name(&self) -> String {
        format!("{}_{}({})", self.name, self.namespace, self.uid)
    }

    /// Comes from a file of this node, not from the API server.
    pub fn is_static(&self) -> bool {
        let annotations = self.pod.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(SOURCE)).is_some_and(|source| source == "file")
    }

    /// Whether the API server was told that this very container is ready.
    pub fn reported_ready(&self, id: &str) -> Option<bool> {
        let status = self.pod.status.as_ref()?;
        let lists = [&status.container_statuses, &status.init_container_statuses];
        let mut all = lists.into_iter().flatten().flatten();
        all.find(|status| status.container_id.as_deref().is_some_and(|known| known.ends_with(id)))
            .map(|s| s.ready)
    }

    /// How often the API server was told that a container was restarted; the runtime may have forgotten.
    pub fn reported_restarts(&self, name: &str) -> Option<u32> {
        let status = self.pod.status.as_ref()?;
        let lists = [
            &status.container_statuses,
            &status.init_container_statuses,
            &status.ephemeral_container_statuses,
        ];
        let found = lists.into_iter().flatten().flatten().find(|status| status.name == name)?;
        found.container_id.as_ref().filter(|id| !id.is_empty())?;
        Some(found.restart_count.max(0) as u32)
    }
}

/// The UID under which the runtime knows a pod. A mirror pod's own UID differs from its static pod's.
pub fn identity(pod: &core::Pod) -> String {
    mirrored(pod).or(pod.metadata.uid.as_ref()).cloned().unwrap_or_default()
}

fn init(spec: core::Container, policy: RestartPolicy) -> ContainerSpec {
    // An init container that ended well is done, whatever the pod's policy.
    let (kind, restart) = match (spec.restart_policy.as_deref(), policy) {
        (Some("Always"), _) => (Kind::Sidecar, RestartPolicy::Always),
        (own, RestartPolicy::Always) => {
            (Kind::Init, RestartPolicy::parse(own).unwrap_or(RestartPolicy::OnFailure))
        }
        (own, policy) => (Kind::Init, RestartPolicy::parse(own).unwrap_or(policy)),
    };
    ContainerSpec { kind, hash: hash(&spec), resources: amounts(&spec), spec, restart, target: None }
}

fn main(spec: core::Container, policy: RestartPolicy) -> ContainerSpec {
    let restart = RestartPolicy::parse(spec.restart_policy.as_deref()).unwrap_or(policy);
    let (hash, resources) = (hash(&spec), amounts(&spec));
    ContainerSpec { kind: Kind::Main, hash, resources, spec, restart, target: None }
}

/// An ephemeral container has a container's fields under the same names.
fn ephemeral(container: core::EphemeralContainer) -> Option<ContainerSpec> {
    let target = container.target_container_name.clone();
    let spec: core::Container = serde_json::to_value(container).and_then(serde_json::from_value).ok()?;
    let restart = RestartPolicy::Never;
    let (hash, resources) = (hash(&spec), amounts(&spec));
    Some(ContainerSpec { kind: Kind::Ephemeral, hash, resources, spec, restart, target })
}

/// Changes when the container must be replaced. The image is all that may change in a running pod.
fn hash(spec: &core::Container) -> String {
    let digest = Sha256::new().chain_update(&spec.name).chain_update([0]);
    let digest = digest.chain_update(spec.image.as_deref().unwrap_or_default()).finalize();
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn rules_of_a_container_come_before_policies() {
        let rule = |operator: &str, values: Value| json!({"action": "Restart", "exitCodes": {"operator": operator, "values": values}});
        let check = |list: &str, policy: &str, rules: Value, restarted: &[i32]| {
            let container = json!({"name": "c", "restartPolicy": policy, "restartPolicyRules": rules});
            let mut spec = json!({"restartPolicy": "Never", "containers": []});
            spec[list] = json!([container]);
            let pod = json!({"metadata": {}, "spec": spec});
            let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
            let container = desired_pod.container("c").unwrap();
            let found: Vec<i32> =
                [0, 1, 42].into_iter().filter(|code| container.restarts_after(*code)).collect();
            assert_eq!(found, restarted, "{list} {policy} {rules}");
        };
        check("containers", "Never", Value::Null, &[]);
        check("containers", "Never", json!([rule("In", json!([42]))]), &[42]);
        check("containers", "Never", json!([rule("NotIn", json!([42]))]), &[0, 1]);
        check("containers", "Never", json!([rule("In", json!([1])), rule("In", json!([0]))]), &[0, 1]);
        check("containers", "OnFailure", json!([rule("In", json!([0]))]), &[0, 1, 42]);
        check("initContainers", "Never", json!([rule("In", json!([0, 42]))]), &[42]);
    }
}
