//! Role `node`: the port of each node's agent.

use serde_json::Value;

use super::objects::name_of;
use super::target::{Labels, Target, joined, list, sanitized, text};

/// In this order Prometheus picks a node's address.
const TYPES: [&str; 4] = ["InternalIP", "ExternalIP", "LegacyHostIP", "Hostname"];
const DEFAULT_PORT: i64 = 10250;

pub fn targets(node: &Value) -> Option<Target<'_>> {
    let addresses = || list(&node["status"]["addresses"]);
    let address = TYPES.iter().find_map(|kind| addresses().find(|address| address["type"] == *kind))?;
    let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_i64().unwrap_or(DEFAULT_PORT);
    let mut labels = Labels::default();
    labels.plain("instance", name_of(node));
    labels.add_metadata("node", node);
    labels.add_some("node_provider_id", &node["spec"]["providerID"]);
    for kind in TYPES {
        if let Some(first) = addresses().find(|address| address["type"] == kind) {
            labels.add(&format!("node_address_{}", sanitized(kind)), text(&first["address"]));
        }
    }
    Some(Target { address: [joined(text(&address["address"]), port)], labels })
}
