//! Dashboards for any Grafana, and the files by which it finds them and the engine. Pure: tables become JSON.
//!
//! Metrics have the names of cAdvisor, the node exporter and kube-state-metrics, so public dashboards work beside these.
//! A test runs every query below on a real cluster: none is empty.

mod autoscaling;
mod cluster;
mod control_plane;
mod functions;
mod mesh;
mod model;
mod network;
mod nodes;
mod pods;
mod storage;
mod workflows;
mod workloads;

pub use model::{Dashboard, Panel, Unit, Variable};

/// All of them, in the order of their use.
pub const DASHBOARDS: &[&Dashboard] = &[
    &cluster::CLUSTER,
    &nodes::NODES,
    &workloads::WORKLOADS,
    &pods::PODS,
    &control_plane::CONTROL_PLANE,
    &network::NETWORK,
    &autoscaling::AUTOSCALING,
    &storage::STORAGE,
    &functions::FUNCTIONS,
    &workflows::WORKFLOWS,
    &mesh::MESH,
];

/// Relative path and content of every file that Grafana wants: mount the folder at `/etc/grafana/minik8s`, and
/// `provisioning` in place of Grafana's.
pub fn files(url: &str) -> Vec<(String, String)> {
    let pretty = |value| serde_json::to_string_pretty(&value).unwrap_or_default() + "\n";
    let mut files: Vec<(String, String)> = DASHBOARDS
        .iter()
        .map(|one| (format!("dashboards/{}.json", one.uid), pretty(one.to_json())))
        .collect();
    // JSON is YAML, and whatever is in the address stays in it.
    let source = serde_json::json!({"apiVersion": 1, "datasources": [
        {"name": "minik8s", "uid": "minik8s", "type": "prometheus", "access": "proxy", "url": url, "isDefault": true}]});
    let provider = serde_json::json!({"apiVersion": 1, "providers": [{"name": "minik8s", "folder": "minik8s",
        "type": "file", "options": {"path": "/etc/grafana/minik8s/dashboards"}}]});
    files.push(("provisioning/datasources/minik8s.yaml".to_owned(), pretty(source)));
    files.push(("provisioning/dashboards/minik8s.yaml".to_owned(), pretty(provider)));
    files
}

#[cfg(test)]
mod tests;
