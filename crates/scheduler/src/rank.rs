//! How the nodes that would take a pod compare, score by score: for people, not for deciding. A decision adds up the same
//! numbers ([`crate::decide`]), though in a large cluster it looks at a part of the nodes.

use crate::decide::{possible_nodes, weigh};
use crate::snapshot::{PodInfo, Snapshot};
use crate::strategy::{ANNOTATION, Strategy};

/// What one node gets.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeScores {
    pub node: String,
    /// In the order of the strategy; empty where it does not compare nodes.
    pub scores: Vec<NodeScore>,
    pub total: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeScore {
    pub name: &'static str,
    pub weight: f64,
    /// 0 to 100, among the nodes that are compared.
    pub value: f64,
}

/// All nodes that no filter refuses, the best first.
pub fn rank(pod: &PodInfo, snapshot: &Snapshot, strategy: Strategy) -> Vec<NodeScores> {
    let possible = possible_nodes(pod, snapshot);
    let start = |name: &str| NodeScores { node: name.to_owned(), scores: Vec::new(), total: 0.0 };
    let mut ranked: Vec<NodeScores> = possible.iter().map(|node| start(&node.name)).collect();
    weigh(pod, snapshot, strategy, &possible, |name, weight, values| {
        for (node, &value) in ranked.iter_mut().zip(values) {
            node.scores.push(NodeScore { name, weight, value });
            node.total += weight * value;
        }
    });
    ranked.sort_by(|a, b| b.total.total_cmp(&a.total).then_with(|| a.node.cmp(&b.node)));
    ranked
}

/// The strategy that a pod asks for itself, or else the cluster's.
pub fn strategy_of(pod: &PodInfo, of_cluster: Strategy) -> Strategy {
    let wanted = pod.pod.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION));
    wanted.and_then(|name| name.parse().ok()).unwrap_or(of_cluster)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::decide::{Chooser, Decision, decide};

    fn snapshot() -> Snapshot {
        let mut seen = Snapshot::default();
        for (name, cpu, cordoned) in [("small", "2", false), ("big", "8", false), ("off", "64", true)] {
            let node = json!({
                "metadata": {"name": name}, "spec": {"unschedulable": cordoned},
                "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
                           "conditions": [{"type": "Ready", "status": "True"}]},
            });
            seen.set_node(Arc::new(serde_json::from_value(node).unwrap()));
        }
        seen
    }

    fn pod(annotations: serde_json::Value) -> Arc<PodInfo> {
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
        });
        PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap()))
    }

    #[test]
    fn best_node_is_the_one_that_a_decision_takes() {
        let (pod, seen) = (pod(json!({})), snapshot());
        for strategy in [Strategy::Balanced, Strategy::LeastCpu, Strategy::Binpack, Strategy::LeastPods] {
            let ranked = rank(&pod, &seen, strategy);
            assert_eq!(ranked.len(), 2, "what is refused is not compared: {ranked:?}");
            let sum = |node: &NodeScores| node.scores.iter().map(|one| one.weight * one.value).sum::<f64>();
            assert!(ranked.iter().all(|node| (sum(node) - node.total).abs() < 1e-9));
            if ranked[0].total - ranked[1].total > 1e-9 {
                let taken = decide(&pod, &seen, strategy, &mut Chooser::new(1));
                assert_eq!(taken, Decision::Place(ranked[0].node.clone()), "{strategy}");
            }
        }
        assert_eq!(rank(&pod, &seen, Strategy::Balanced)[0].node, "big");
        assert_eq!(rank(&pod, &seen, Strategy::Binpack)[0].node, "small");
        assert!(rank(&pod, &seen, Strategy::Random).iter().all(|node| node.scores.is_empty()));
    }

    #[test]
    fn pod_may_ask_for_a_strategy() {
        let check = |annotations: serde_json::Value, want: Strategy| {
            assert_eq!(strategy_of(&pod(annotations), Strategy::LeastPods), want);
        };
        check(json!({}), Strategy::LeastPods);
        check(json!({"minik8s.io/strategy": "binpack"}), Strategy::Binpack);
        check(json!({"minik8s.io/strategy": "best"}), Strategy::LeastPods);
    }
}
