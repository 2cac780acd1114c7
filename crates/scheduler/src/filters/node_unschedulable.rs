//! Cordoned nodes take no pods, except those that tolerate it.

use k8s_openapi::api::core::v1::Taint;
use minik8s_runtime::placement::tolerates;

use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};
use crate::waking::Waking;

pub struct NodeUnschedulable;

impl Filter for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Check<'a>> {
        let cordoned = Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        if tolerates(&pod.tolerations, &cordoned) {
            return None;
        }
        Some(Box::new(|node| {
            if node.unschedulable { Err(Refusal::fixed("node(s) were unschedulable")) } else { Ok(()) }
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE
    }

    fn remedy(&self, _: &PodInfo, node: &NodeInfo, _: &Snapshot) -> String {
        format!("let the node take pods again: kubectl uncordon {}", node.name)
    }
}
