//! What makes a node impossible for a pod: one file per reason.
//!
//! A filter is prepared once per pod, when it may look at the whole snapshot, and is left out if the pod
//! gives it nothing to check. What remains is asked once per node and must be cheap.

mod dynamic_resources;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_unschedulable;
mod node_volume_limits;
mod pod_affinity;
mod resources_fit;
mod taint_toleration;
mod topology_spread;
mod volume_binding;

use std::borrow::Cow;

use crate::snapshot::{NodeInfo, PodInfo, Snapshot};
use crate::waking::Waking;

pub use node_affinity::admits;
pub use resources_fit::missing_resources;

/// Why one node will not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// In upstream's words, as they follow a count: `2 Insufficient cpu`.
    pub reasons: Vec<Cow<'static, str>>,
    /// Whether removing pods from the node could help.
    pub pods_matter: bool,
    /// Not the node's fault: the pod cannot go anywhere as things are.
    pub everywhere: bool,
}

impl Refusal {
    /// Nothing that runs on the node is to blame.
    pub fn fixed(reason: impl Into<Cow<'static, str>>) -> Self {
        Refusal { reasons: vec![reason.into()], pods_matter: false, everywhere: false }
    }

    /// No node at all can take the pod.
    pub fn everywhere(reason: impl Into<Cow<'static, str>>) -> Self {
        Refusal { everywhere: true, ..Refusal::fixed(reason) }
    }

    /// Pods on this or other nodes are in the way.
    pub fn by_pods(reason: impl Into<Cow<'static, str>>) -> Self {
        Refusal { pods_matter: true, ..Refusal::fixed(reason) }
    }
}

pub type Check<'a> = Box<dyn Fn(&NodeInfo) -> Result<(), Refusal> + 'a>;

pub trait Filter: Send + Sync {
    fn name(&self) -> &'static str;

    /// None: this pod can't be refused by this filter.
    fn prepare<'a>(&self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Check<'a>>;

    /// Changes after which a pod it refused is worth another try.
    fn helped_by(&self) -> Waking;

    /// The smallest change, in words, that would make it accept this node, which it refuses now.
    fn remedy(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> String;
}

/// All filters, the cheapest and most decisive first.
pub const ALL: &[&dyn Filter] = &[
    &node_unschedulable::NodeUnschedulable,
    &node_name::NodeName,
    &taint_toleration::TaintToleration,
    &node_affinity::NodeAffinity,
    &node_ports::NodePorts,
    &resources_fit::ResourcesFit,
    &volume_binding::VolumeBinding,
    &node_volume_limits::NodeVolumeLimits,
    &topology_spread::TopologySpread,
    &pod_affinity::PodAffinity,
    // The dearest: it searches.
    &dynamic_resources::DynamicResources,
];
