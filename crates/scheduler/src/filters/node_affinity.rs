//! `nodeSelector` and required node affinity.

use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};
use crate::waking::Waking;

pub struct NodeAffinity;

impl Filter for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Check<'a>> {
        if pod.node_selector.is_empty() && pod.node_affinity.is_none() {
            return None;
        }
        Some(Box::new(|node| {
            let admitted = admits(pod, node);
            let reason = "node(s) didn't match Pod's node affinity/selector";
            if admitted { Ok(()) } else { Err(Refusal::fixed(reason)) }
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE
    }

    fn remedy(&self, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> String {
        let differs = |(key, value): &(&String, &String)| node.label(key) != Some(value.as_str());
        let labels = pod.node_selector.iter().filter(differs).map(|(key, value)| format!("{key}={value}"));
        let labels: Vec<String> = labels.collect();
        if labels.is_empty() {
            return "label the node to meet the pod's required node affinity".to_owned();
        }
        format!("label the node: kubectl label node {} {} --overwrite", node.name, labels.join(" "))
    }
}

/// Whether the pod's own wishes allow the node.
pub fn admits(pod: &PodInfo, node: &NodeInfo) -> bool {
    pod.node_selector.iter().all(|(key, value)| node.label(key) == Some(value))
        && pod.node_affinity.as_ref().is_none_or(|terms| terms.admits(node))
}
