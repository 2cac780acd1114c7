//! Nodes with bars: what they use where that is measured, else what their pods request.

use minik8s_meta::Quantity;
use serde_json::Value;

use super::Cluster;
use crate::print::{bar, tabs};
use crate::verbs::top::Use;

pub fn table(cluster: &Cluster) -> String {
    let measured = !cluster.metrics.is_empty();
    let word = if measured { "use" } else { "requested" };
    let mut lines = format!("Nodes\tSTATUS\tCPU {word}\tMEMORY {word}\tPODS\n");
    for node in &cluster.nodes {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let on_node: Vec<&Value> = cluster
            .pods
            .iter()
            .filter(|pod| pod["spec"]["nodeName"] == name)
            .filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")))
            .collect();
        let used = match cluster.metrics.iter().find(|metric| metric["metadata"]["name"] == name) {
            Some(metric) => Use::of(&metric["usage"]),
            None => requested(&on_node),
        };
        let whole = &node["status"]["allocatable"];
        let all = Use::of(whole);
        let most = whole["pods"].as_str().unwrap_or("?");
        lines.push_str(&format!(
            "  {name}\t{}\t{} of {}\t{} of {}\t{}/{most}\n",
            state(node),
            share(used.cpu, all.cpu),
            whole["cpu"].as_str().unwrap_or("?"),
            share(used.memory, all.memory),
            bytes(all.memory),
            on_node.len(),
        ));
    }
    if cluster.nodes.is_empty() {
        lines.push_str(
            "  none: start one with `minik8s server` without --no-agent, or join one with `minik8s agent`\n",
        );
    }
    tabs::align(&lines, tabs::DESCRIPTION)
}

fn requested(pods: &[&Value]) -> Use {
    let mut total = Use::default();
    for pod in pods {
        for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
            let one = Use::of(&container["resources"]["requests"]);
            total.cpu += one.cpu;
            total.memory += one.memory;
        }
    }
    total
}

pub fn state(node: &Value) -> String {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
    let mut state = if ready { "Ready" } else { "NotReady" }.to_owned();
    if node["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    state
}

/// `███░░░░░░░░░  25%`.
pub fn share(part: i64, whole: i64) -> String {
    format!("{} {:>3}%", bar::bar(part, whole), bar::percent(part, whole))
}

/// Rounded, for people.
pub fn bytes(amount: i64) -> String {
    let gibi = 1024 * 1024 * 1024;
    match amount {
        0 => "?".to_owned(),
        a if a >= gibi => format!("{:.1}Gi", a as f64 / gibi as f64),
        a => {
            Quantity::new(a / (1024 * 1024) * 1024 * 1024, minik8s_meta::QuantityFormat::BinarySi).to_string()
        }
    }
}
