//! What a node's conditions say, and what they say when nobody answers.

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// The conditions that only the node itself can know.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

pub(super) fn get<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == kind)
}

pub(super) fn is_ready(node: &Node) -> bool {
    get(node, "Ready").is_some_and(|c| c.status == "True")
}

/// Changes whenever the node reports.
pub(super) fn heartbeat(node: &Node) -> Option<Timestamp> {
    get(node, "Ready")?.last_heartbeat_time.as_ref().map(|time| time.0)
}

/// The node with all its own conditions unknown.
pub(super) fn silenced(node: &Node, now: Timestamp) -> Node {
    let mut node = node.clone();
    let conditions = node.status.get_or_insert_default().conditions.get_or_insert_default();
    for kind in REPORTED {
        let Some(known) = conditions.iter_mut().find(|c| c.type_ == kind) else {
            conditions.push(NodeCondition {
                type_: kind.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: None,
                last_transition_time: Some(Time(now)),
            });
            continue;
        };
        if known.status != "Unknown" {
            known.status = "Unknown".to_owned();
            known.reason = Some("NodeStatusUnknown".to_owned());
            known.message = Some("Kubelet stopped posting node status.".to_owned());
            known.last_transition_time = Some(Time(now));
        }
    }
    node
}
