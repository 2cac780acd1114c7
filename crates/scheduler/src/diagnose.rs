//! Every obstacle between a pod and every node, with what would remove it: for people, not for deciding.

use crate::filters;
use crate::snapshot::{PodInfo, Snapshot};

/// What one node has against a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeObstacles {
    pub node: String,
    /// None: the pod would fit.
    pub obstacles: Vec<Obstacle>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The filter that refuses.
    pub filter: &'static str,
    pub reasons: Vec<String>,
    /// The smallest change that would satisfy it.
    pub remedy: String,
    /// No other node would help.
    pub everywhere: bool,
}

/// All nodes by name. Unlike a decision it goes on after the first refusal.
pub fn diagnose(pod: &PodInfo, snapshot: &Snapshot) -> Vec<NodeObstacles> {
    let checks: Vec<_> =
        filters::ALL.iter().filter_map(|filter| Some((*filter, filter.prepare(pod, snapshot)?))).collect();
    let mut nodes: Vec<NodeObstacles> = snapshot
        .nodes()
        .map(|node| {
            let refused = checks.iter().filter_map(|(filter, check)| Some((filter, check(node).err()?)));
            let mut obstacles: Vec<Obstacle> = refused
                .map(|(filter, refusal)| Obstacle {
                    filter: filter.name(),
                    reasons: refusal.reasons.iter().map(|reason| reason.to_string()).collect(),
                    remedy: filter.remedy(pod, node, snapshot),
                    everywhere: refusal.everywhere,
                })
                .collect();
            // A cordon is also a taint: one change takes both away.
            if obstacles.iter().any(|obstacle| obstacle.filter == "NodeUnschedulable") {
                obstacles.retain(|obstacle| !is_cordon_taint(obstacle));
            }
            NodeObstacles { node: node.name.clone(), obstacles }
        })
        .collect();
    nodes.sort_by(|a, b| a.node.cmp(&b.node));
    nodes
}

fn is_cordon_taint(obstacle: &Obstacle) -> bool {
    obstacle.filter == "TaintToleration"
        && obstacle.reasons.iter().all(|reason| reason.contains("node.kubernetes.io/unschedulable"))
}

/// The node that would take the fewest and easiest changes.
pub fn nearest(nodes: &[NodeObstacles]) -> Option<&NodeObstacles> {
    let effort = |node: &&NodeObstacles| -> usize {
        node.obstacles.iter().map(|obstacle| effort(obstacle.filter)).sum()
    };
    nodes.iter().min_by_key(effort)
}

/// Rough, but in the order in which people would try: a change of the node's mark, of the pod's spec, of
/// what it asks for, of the cluster.
fn effort(filter: &str) -> usize {
    match filter {
        "NodeUnschedulable" => 1,
        "TaintToleration" | "NodeAffinity" | "PodTopologySpread" => 2,
        "NodeResourcesFit" | "NodePorts" | "NodeName" => 3,
        _ => 5,
    }
}
