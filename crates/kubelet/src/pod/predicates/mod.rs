//! Whether this node may run a pod that was bound to it: `(pod, admitted pods, node) → admission`. Pure.
//!
//! The scheduler asks the same questions, by the same rules ([`minik8s_runtime::placement`]); but a pod may be bound by
//! somebody else, or the node may have changed meanwhile. A pod that is refused has failed for good and its controller
//! makes another, so the answers come in upstream's order and words. It never looks at containers, and never ends a pod
//! itself: it names those that must go for a critical one.

mod footprint;
mod preemption;

use k8s_openapi::api::core::v1 as core;
use minik8s_runtime::placement::{Resources, admits, tolerates};

pub use footprint::Footprint;
use preemption::victims;

const OS_LABEL: &str = "kubernetes.io/os";
const OS: &str = "linux";

/// Why a pod is refused, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    pub reason: String,
    pub message: String,
}

/// UIDs of the pods that must end to make room for an admitted one; mostly none.
pub type Victims = Vec<String>;

/// The node as pods see it.
#[derive(Debug, Clone, Default)]
pub struct NodeView {
    /// Its name, labels and taints.
    pub node: core::Node,
    pub allocatable: Resources,
    pub pods: usize,
}

pub fn admit(pod: &core::Pod, others: &[&Footprint], node: &NodeView) -> Result<Victims, Rejection> {
    let wants = Footprint::of(pod);
    check_os(pod)?;
    let missing = missing_resources(&wants, others, node);
    let mut failed = failed_predicates(pod, &wants, others, node);
    if !wants.is_critical {
        let reasons = missing.iter().map(Missing::rejection).chain(failed);
        return reasons.into_iter().next().map_or(Ok(Victims::new()), Err);
    }
    // Of a critical pod only what no other pod's end could change is held against it.
    match failed.next() {
        Some(rejection) => Err(rejection),
        None => victims(&wants, others, &missing),
    }
}

fn check_os(pod: &core::Pod) -> Result<(), Rejection> {
    let rejected = |reason: &str, message: &str| {
        Err(Rejection { reason: reason.to_owned(), message: message.to_owned() })
    };
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS_LABEL));
    if label.is_some_and(|label| label != OS) {
        return rejected(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        );
    }
    let os = pod.spec.as_ref().and_then(|spec| spec.os.as_ref());
    if os.is_some_and(|os| os.name != OS) {
        return rejected("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS");
    }
    Ok(())
}

/// A resource of which too little is left.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Missing {
    resource: String,
    requested: i64,
    used: i64,
    capacity: i64,
}

impl Missing {
    fn rejection(&self) -> Rejection {
        let Missing { resource, requested, used, capacity } = self;
        Rejection {
            reason: format!("OutOf{resource}"),
            message: format!(
                "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: \
                 {capacity}"
            ),
        }
    }

    /// How much others must give back.
    fn shortfall(&self) -> i64 {
        self.requested.saturating_sub(self.capacity.saturating_sub(self.used))
    }
}

fn missing_resources(wants: &Footprint, others: &[&Footprint], node: &NodeView) -> Vec<Missing> {
    let mut used = Resources::default();
    others.iter().for_each(|other| used.add(&other.requests));
    let (wants, has) = (&wants.requests, &node.allocatable);
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let mut all = vec![
        ("pods", 1, count(others.len()), count(node.pods)),
        ("cpu", wants.cpu, used.cpu, has.cpu),
        ("memory", wants.memory, used.memory, has.memory),
        ("ephemeral-storage", wants.ephemeral_storage, used.ephemeral_storage, has.ephemeral_storage),
    ];
    let others = wants.others.iter().filter(|(name, _)| !is_of_the_cluster(name, has));
    all.extend(others.map(|(name, n)| (&**name, *n, used.other(name), has.other(name))));
    all.into_iter()
        .filter(|(_, wanted, used, has)| *wanted > 0 && *wanted > has.saturating_sub(*used))
        .map(|(resource, requested, used, capacity)| Missing {
            resource: resource.to_owned(),
            requested,
            used,
            capacity,
        })
        .collect()
}

/// An extended resource that the node does not know is the scheduler's business, as one of the whole cluster.
fn is_of_the_cluster(name: &str, has: &Resources) -> bool {
    let extended = name.contains('/') && !name.contains("kubernetes.io/");
    extended && !has.others.iter().any(|(known, _)| &**known == name)
}

/// All but resources, in order.
fn failed_predicates<'a>(
    pod: &'a core::Pod,
    wants: &'a Footprint,
    others: &'a [&'a Footprint],
    node: &'a NodeView,
) -> impl Iterator<Item = Rejection> + 'a {
    let empty = core::PodSpec::default();
    let spec = pod.spec.clone().unwrap_or(empty);
    let name = node.node.metadata.name.as_deref().unwrap_or_default();
    let bound = spec.node_name.as_deref().filter(|bound| !bound.is_empty());
    let ports_taken = || {
        let mut used = others.iter().flat_map(|other| &other.ports);
        used.any(|used| wants.ports.iter().any(|wanted| wanted.collides(used)))
    };
    let taints = node.node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let mut evicting = taints.iter().filter(|taint| taint.effect == "NoExecute");
    let untolerated = !wants.is_static && evicting.any(|taint| !tolerates(tolerations, taint));
    let predicates = [
        (!admits(&spec, &node.node), "NodeAffinity", "node(s) didn't match Pod's node affinity/selector"),
        (
            bound.is_some_and(|bound| bound != name),
            "NodeName",
            "node(s) didn't match the requested node name",
        ),
        (ports_taken(), "NodePorts", "node(s) didn't have free ports for the requested pod ports"),
        (untolerated, "TaintToleration", "node(s) had taints that the pod didn't tolerate"),
    ];
    predicates.into_iter().filter(|(failed, ..)| *failed).map(|(_, reason, why)| Rejection {
        reason: reason.to_owned(),
        message: format!("Predicate {reason} failed: {why}"),
    })
}

#[cfg(test)]
mod tests;
