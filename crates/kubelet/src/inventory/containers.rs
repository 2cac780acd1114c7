//! Containers as people look for them: whose they are, what they run, how they are. Pure.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::containerd::FoundContainer;
use crate::cri::{CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID};
use crate::image::NAMESPACE;

/// Says what CRI has made: a container, or the sandbox of a pod.
const KIND: &str = "io.cri-containerd.kind";
/// Where nerdctl keeps the name that its user gave.
const NERDCTL_NAME: &str = "nerdctl/name";
/// As many letters of an id as Docker shows.
const SHORT_ID: usize = 12;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerEntry {
    pub id: String,
    pub name: String,
    pub state: &'static str,
    #[serde(skip_serializing_if = "is_zero")]
    pub pid: u32,
    pub image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// `pod` and `sandbox` are of a pod of this node, `agent` are of its agent, `foreign` are everybody else's.
    pub owner: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_name: String,
    /// containerd's namespace.
    pub runtime_namespace: String,
    /// The socket of another containerd than the node's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// `found` by the containerd that listens at `runtime`, empty for the node's own; `pods` are the UIDs of those of this node.
pub fn entries(
    found: Vec<FoundContainer>,
    runtime: &str,
    pods: &BTreeSet<String>,
) -> impl Iterator<Item = ContainerEntry> {
    found.into_iter().map(move |container| entry(container, runtime, pods))
}

/// Whether CRI has made it.
pub fn is_of_cri(container: &FoundContainer) -> bool {
    container.labels.contains_key(KIND)
}

fn entry(container: FoundContainer, runtime: &str, pods: &BTreeSet<String>) -> ContainerEntry {
    let label = |name: &str| container.labels.get(name).map(String::as_str).unwrap_or_default();
    let is_sandbox = label(KIND) == "sandbox";
    let named = [CONTAINER_NAME, NERDCTL_NAME].into_iter().map(label).find(|name| !name.is_empty());
    let short = || -> String { container.id.chars().take(SHORT_ID).collect() };
    let name = if is_sandbox { "sandbox".to_owned() } else { named.map_or_else(short, str::to_owned) };
    let is_ours = runtime.is_empty() && container.namespace == NAMESPACE && is_of_cri(&container);
    let owner = match (is_ours, pods.contains(label(POD_UID)), is_sandbox) {
        (false, ..) => "foreign",
        (true, false, _) => "agent",
        (true, true, true) => "sandbox",
        (true, true, false) => "pod",
    };
    ContainerEntry {
        name,
        state: container.state,
        pid: container.pid,
        created: container.created.map(|at| at.to_string()),
        owner,
        pod_namespace: label(POD_NAMESPACE).to_owned(),
        pod_name: label(POD_NAME).to_owned(),
        runtime: runtime.to_owned(),
        runtime_namespace: container.namespace.clone(),
        image: container.image.clone(),
        id: container.id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_told_with_their_owners() {
        let pods = BTreeSet::from(["u1".to_owned()]);
        let check = |namespace: &str, runtime: &str, labels: &[(&str, &str)], want: (&str, &str)| {
            let container = FoundContainer {
                id: "0123456789abcdef".to_owned(),
                namespace: namespace.to_owned(),
                labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
                state: "running",
                ..FoundContainer::default()
            };
            let entry = entries(vec![container], runtime, &pods).next().unwrap();
            assert_eq!((entry.owner, entry.name.as_str()), want, "{namespace} {labels:?}");
        };
        let of_pod = |uid: &'static str, kind: &'static str| {
            [(POD_UID, uid), (KIND, kind), (CONTAINER_NAME, "web"), (POD_NAME, "shop")]
        };
        check("k8s.io", "", &of_pod("u1", "container"), ("pod", "web"));
        check("k8s.io", "", &of_pod("u1", "sandbox"), ("sandbox", "sandbox"));
        check("k8s.io", "", &of_pod("gone", "container"), ("agent", "web"));
        // A pod of somebody else's cluster, and containers that no cluster knows.
        check("k8s.io", "/run/containerd/containerd.sock", &of_pod("u1", "container"), ("foreign", "web"));
        check("moby", "", &of_pod("u1", "container"), ("foreign", "web"));
        check("k8s.io", "", &[], ("foreign", "0123456789ab"));
        check("default", "", &[(NERDCTL_NAME, "db")], ("foreign", "db"));
    }

    #[test]
    fn nothing_is_told_of_what_a_container_was_started_with() {
        let entry = entries(vec![FoundContainer::default()], "", &BTreeSet::new()).next().unwrap();
        let told = serde_json::to_value(entry).unwrap();
        let fields: BTreeSet<&str> = told.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(Vec::from_iter(fields), ["id", "image", "name", "owner", "runtimeNamespace", "state"]);
    }
}
