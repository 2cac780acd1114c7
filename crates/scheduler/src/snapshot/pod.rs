//! What placing a pod depends on, worked out once when the pod is first seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration, TopologySpreadConstraint};
use minik8s_runtime::placement::{HostPort, Resources, host_ports, requested_by};
use minik8s_runtime::{Key, Selector, controller_of, key_of};

use super::affinity::{self, NodeTerms, PodTerm, WeightedPodTerm};

/// Pods that ask for nothing count this much when nodes are compared.
const SMALL_CPU: i64 = 100;
const SMALL_MEMORY: i64 = 200 * 1024 * 1024;

pub struct PodInfo {
    pub pod: Arc<Pod>,
    pub key: Key,
    pub uid: String,
    pub priority: i32,
    pub requests: Resources,
    pub burden: Resources,
    pub ports: Vec<HostPort>,
    pub tolerations: Vec<Toleration>,
    pub node_selector: BTreeMap<String, String>,
    pub node_affinity: Option<NodeTerms>,
    pub preferred_nodes: Vec<(i32, NodeTerms)>,
    pub affinity: Vec<Arc<PodTerm>>,
    pub anti_affinity: Vec<Arc<PodTerm>>,
    /// Negative weights are preferences to stay apart.
    pub preferred_pods: Vec<Arc<WeightedPodTerm>>,
    pub spread: Vec<SpreadConstraint>,
    /// What is preferred if the pod names no constraints of its own.
    pub default_spread: Vec<SpreadConstraint>,
    /// UID of the controller that owns it.
    pub controller: Option<String>,
    pub images: Vec<String>,
}

/// A topology spread constraint.
pub struct SpreadConstraint {
    pub max_skew: i64,
    pub min_domains: usize,
    /// Otherwise it is only a preference.
    pub required: bool,
    /// Count only nodes that the pod's node affinity admits.
    pub honour_affinity: bool,
    /// Count only nodes whose taints the pod tolerates.
    pub honour_taints: bool,
    /// The pods to spread, and over which topology.
    pub term: Arc<PodTerm>,
}

impl PodInfo {
    pub fn new(pod: Arc<Pod>) -> Arc<Self> {
        let empty = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let key = key_of(&*pod);
        let requests = requested_by(spec);
        let mut burden = requests.clone();
        burden.cpu = if burden.cpu == 0 { SMALL_CPU } else { burden.cpu };
        burden.memory = if burden.memory == 0 { SMALL_MEMORY } else { burden.memory };
        let node_affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
        let terms = affinity::pod_terms(spec.affinity.as_ref(), &pod);
        let controller = controller_of(&pod.metadata).map(|owner| owner.uid.clone());
        Arc::new(PodInfo {
            default_spread: default_spread(controller.as_deref(), &key),
            controller,
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            priority: spec.priority.unwrap_or(0),
            burden,
            requests,
            ports: host_ports(spec),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            node_affinity: node_affinity
                .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
                .map(NodeTerms::new),
            preferred_nodes: affinity::preferred_nodes(node_affinity),
            affinity: terms.required,
            anti_affinity: terms.forbidden,
            preferred_pods: terms.preferred,
            spread: spec
                .topology_spread_constraints
                .iter()
                .flatten()
                .map(|constraint| spread_constraint(constraint, &pod))
                .collect(),
            images: spec.containers.iter().filter_map(|c| c.image.clone()).collect(),
            key,
            pod,
        })
    }

    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.pod.metadata.labels.as_ref()
    }

    /// Deleted, though its containers may still run.
    pub fn is_leaving(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }

    pub fn spec(&self) -> Option<&PodSpec> {
        self.pod.spec.as_ref()
    }
}

fn spread_constraint(constraint: &TopologySpreadConstraint, pod: &Pod) -> SpreadConstraint {
    let mut selector = Selector::new(constraint.label_selector.as_ref());
    for key in constraint.match_label_keys.iter().flatten() {
        if let Some(value) = pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)) {
            selector = selector.and_equal(key, value);
        }
    }
    SpreadConstraint {
        max_skew: i64::from(constraint.max_skew),
        min_domains: usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(1),
        required: constraint.when_unsatisfiable == "DoNotSchedule",
        honour_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
        honour_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
        term: Arc::new(PodTerm::staying(
            selector,
            pod.metadata.namespace.clone().unwrap_or_default(),
            constraint.topology_key.clone(),
        )),
    }
}

/// Siblings are spread over nodes, and more loosely over zones.
fn default_spread(controller: Option<&str>, key: &Key) -> Vec<SpreadConstraint> {
    let preferred = |topology_key: &str, max_skew: i64, controller: &str| SpreadConstraint {
        max_skew,
        min_domains: 1,
        required: false,
        honour_affinity: true,
        honour_taints: false,
        term: Arc::new(PodTerm::siblings(controller, key.namespace.clone(), topology_key)),
    };
    let Some(controller) = controller else { return Vec::new() };
    vec![
        preferred("kubernetes.io/hostname", 3, controller),
        preferred("topology.kubernetes.io/zone", 5, controller),
    ]
}
