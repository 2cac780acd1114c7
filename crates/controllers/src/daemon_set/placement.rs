//! On which nodes a DaemonSet's pod belongs.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec,
    Taint, Toleration,
};
use minik8s_runtime::placement::{admits, tolerates};

/// Daemons stay when their node is in trouble: they may be the ones to help it.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";

/// What the placement of daemons looks at in a node.
pub(super) fn relevant(node: &Node) -> impl PartialEq + use<> {
    let spec = node.spec.as_ref();
    (
        node.metadata.uid.clone(),
        node.metadata.labels.clone(),
        spec.and_then(|s| s.taints.clone())
            .map(|taints| taints.into_iter().map(|t| (t.key, t.value, t.effect)).collect::<Vec<_>>()),
        spec.and_then(|s| s.unschedulable),
    )
}

/// Whether a pod should be started on the node, and whether one that is there may stay.
pub(super) fn should_run(set: &DaemonSet, node: &Node) -> (bool, bool) {
    let Some(spec) = &set.spec.template.spec else { return (false, false) };
    let name = node.metadata.name.as_deref().unwrap_or("");
    let named = spec.node_name.as_deref().filter(|wanted| !wanted.is_empty());
    if named.is_some_and(|wanted| wanted != name) || !admits(spec, node) {
        return (false, false);
    }
    let tolerations = tolerations(spec);
    let taints = node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
    let bears = |effects: &[&str]| {
        taints.iter().filter(|t| effects.contains(&t.effect.as_str())).all(|t| tolerated(&tolerations, t))
    };
    (bears(&["NoSchedule", "NoExecute"]), bears(&["NoExecute"]))
}

fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    // Until the node is ready nobody knows its taints; daemons go there first.
    let joining =
        taint.key == "node.kubernetes.io/not-ready" || taint.key == "node.kubernetes.io/unreachable";
    joining || tolerates(tolerations, taint)
}

fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut all = spec.tolerations.clone().unwrap_or_default();
    let network = (spec.host_network == Some(true)).then_some((NETWORK_UNAVAILABLE, "NoSchedule"));
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let known = |t: &Toleration| t.key.as_deref() == Some(key) && t.effect.as_deref() == Some(effect);
        if !all.iter().any(known) {
            all.push(Toleration {
                key: Some(key.to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some(effect.to_owned()),
                ..Toleration::default()
            });
        }
    }
    all
}

/// Ties a pod to its node: the scheduler puts it there and nowhere else.
pub(super) fn pin(pod: &mut Pod, node: &str) {
    let Some(spec) = &mut pod.spec else { return };
    spec.tolerations = Some(tolerations(spec));
    let by_name = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity = spec.affinity.get_or_insert_with(Affinity::default);
    let required = affinity
        .node_affinity
        .get_or_insert_with(NodeAffinity::default)
        .required_during_scheduling_ignored_during_execution
        .get_or_insert_with(NodeSelector::default);
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    for term in &mut required.node_selector_terms {
        term.match_fields = Some(vec![by_name.clone()]);
    }
}

/// The node a pod is on or meant for.
pub(super) fn target_node(pod: &Pod) -> Option<&str> {
    if let Some(node) = crate::pods::node_name(pod) {
        return Some(node);
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let field = required.node_selector_terms.first()?.match_fields.as_ref()?.first()?;
    field.values.as_ref()?.first().map(String::as_str)
}
