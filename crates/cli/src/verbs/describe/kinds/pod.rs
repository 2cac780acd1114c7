//! Pods, and the templates of pods in workloads.

use serde_json::Value;

use super::super::page::{Page, items, shown};
use super::{container, controller, selector, volume};
use crate::print::{tabs, time};

pub fn write(pod: &Value, page: &mut Page) {
    head(pod, page);
    let (spec, status) = (&pod["spec"], &pod["status"]);
    for (label, list, statuses) in [
        ("Init Containers", "initContainers", "initContainerStatuses"),
        ("Containers", "containers", "containerStatuses"),
        ("Ephemeral Containers", "ephemeralContainers", "ephemeralContainerStatuses"),
    ] {
        if !items(&spec[list]).is_empty() {
            container::list(label, 0, items(&spec[list]), items(&status[statuses]), Some(pod), page);
        }
    }
    gates(spec, status, page);
    let conditions = items(&status["conditions"]);
    if !conditions.is_empty() {
        page.line(0, "Conditions:");
        page.line(1, "Type\tStatus");
        for condition in conditions {
            page.line(1, format!("{} \t{} ", shown(&condition["type"]), shown(&condition["status"])));
        }
    }
    volume::list(items(&spec["volumes"]), 0, page);
    page.maybe(0, "QoS Class", &status["qosClass"]);
    placement(spec, 0, page);
    spread(spec, page);
}

fn head(pod: &Value, page: &mut Page) {
    let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    page.field(0, "Name", shown(&metadata["name"]));
    page.field(0, "Namespace", shown(&metadata["namespace"]));
    page.maybe(0, "Priority", &spec["priority"]);
    page.maybe(0, "Priority Class Name", &spec["priorityClassName"]);
    page.maybe(0, "Runtime Class Name", &spec["runtimeClassName"]);
    page.maybe(0, "Service Account", &spec["serviceAccountName"]);
    match spec["nodeName"].as_str().filter(|node| !node.is_empty()) {
        Some(node) => page.field(0, "Node", format!("{node}/{}", shown(&status["hostIP"]))),
        None => page.field(0, "Node", "<none>"),
    }
    if status["startTime"].is_string() {
        page.field(0, "Start Time", time::long(&status["startTime"]));
    }
    page.labels(pod);
    page.annotations(pod);
    if metadata["deletionTimestamp"].is_string() {
        page.field(
            0,
            "Status",
            format!("Terminating (lasts {})", time::age_of(&metadata["deletionTimestamp"])),
        );
        page.field(
            0,
            "Termination Grace Period",
            format!("{}s", shown(&metadata["deletionGracePeriodSeconds"])),
        );
    } else {
        page.field(0, "Status", shown(&status["phase"]));
    }
    page.maybe(0, "Reason", &status["reason"]);
    page.maybe(0, "Message", &status["message"]);
    if let Some(profile) = spec["securityContext"]["seccompProfile"]["type"].as_str() {
        page.field(0, "SeccompProfile", profile);
    }
    page.field(0, "IP", shown(&status["podIP"]));
    if items(&status["podIPs"]).is_empty() {
        page.field(0, "IPs", "<none>");
    } else {
        page.line(0, "IPs:");
        for address in items(&status["podIPs"]) {
            page.field(1, "IP", shown(&address["ip"]));
        }
    }
    if let Some(owner) = controller(pod) {
        page.field(0, "Controlled By", owner);
    }
    page.maybe(0, "NominatedNodeName", &status["nominatedNodeName"]);
}

fn gates(spec: &Value, status: &Value, page: &mut Page) {
    let gates = items(&spec["readinessGates"]);
    if gates.is_empty() {
        return;
    }
    page.line(0, "Readiness Gates:");
    page.line(1, "Type\tStatus");
    for gate in gates {
        let conditions = items(&status["conditions"]);
        let known = conditions.iter().find(|condition| condition["type"] == gate["conditionType"]);
        let value = known.map_or("<none>".to_owned(), |condition| shown(&condition["status"]));
        page.line(1, format!("{} \t{value} ", shown(&gate["conditionType"])));
    }
}

/// Where pods may run.
fn placement(spec: &Value, level: usize, page: &mut Page) {
    page.map(level, "Node-Selectors", &spec["nodeSelector"], "=");
    let mut tolerations: Vec<String> = items(&spec["tolerations"]).iter().map(toleration).collect();
    tolerations.sort();
    if tolerations.is_empty() {
        return page.field(level, "Tolerations", "<none>");
    }
    for (i, text) in tolerations.iter().enumerate() {
        match i {
            0 => page.field(level, "Tolerations", text),
            _ => page.line(level, format!("\t{text}")),
        }
    }
}

/// `key=value:Effect op=Exists for 300s`.
fn toleration(toleration: &Value) -> String {
    let text = |field: &str| toleration[field].as_str().unwrap_or_default();
    let mut out = text("key").to_owned();
    if !text("value").is_empty() {
        out.push_str(&format!("={}", text("value")));
    }
    if !text("effect").is_empty() {
        out.push_str(&format!(":{}", text("effect")));
    }
    if text("operator") == "Exists" && text("value").is_empty() {
        let blank = if text("key").is_empty() && text("effect").is_empty() { "" } else { " " };
        out.push_str(&format!("{blank}op=Exists"));
    }
    if let Some(seconds) = toleration["tolerationSeconds"].as_i64() {
        out.push_str(&format!(" for {seconds}s"));
    }
    out
}

fn spread(spec: &Value, page: &mut Page) {
    for (i, constraint) in items(&spec["topologySpreadConstraints"]).iter().enumerate() {
        let text = format!(
            "{}:{} when max skew {} is exceeded",
            shown(&constraint["topologyKey"]),
            shown(&constraint["whenUnsatisfiable"]),
            constraint["maxSkew"]
        );
        let text = match constraint["labelSelector"].is_object() {
            true => format!("{text} for selector {}", selector(&constraint["labelSelector"])),
            false => text,
        };
        match i {
            0 => page.field(0, "Topology Spread Constraints", text),
            _ => page.line(0, format!("\t{text}")),
        }
    }
}

/// `Pod Template:` within a workload.
pub fn pod_template(template: &Value, page: &mut Page) {
    page.line(0, "Pod Template:");
    template_body(template, page);
}

fn template_body(template: &Value, page: &mut Page) {
    page.map(1, "Labels", &template["metadata"]["labels"], "=");
    if template["metadata"]["annotations"].as_object().is_some_and(|map| !map.is_empty()) {
        page.map(1, "Annotations", &template["metadata"]["annotations"], ": ");
    }
    let spec = &template["spec"];
    page.maybe(1, "Service Account", &spec["serviceAccountName"]);
    if !items(&spec["initContainers"]).is_empty() {
        container::list("Init Containers", 1, items(&spec["initContainers"]), &[], None, page);
    }
    container::list("Containers", 1, items(&spec["containers"]), &[], None, page);
    match items(&spec["volumes"]) {
        [] => page.field(1, "Volumes", "<none>"),
        volumes => volume::list(volumes, 1, page),
    }
    page.maybe(1, "Priority Class Name", &spec["priorityClassName"]);
    placement(spec, 1, page);
}

/// A template by itself, as `rollout history` shows it.
pub fn template(template: &Value) -> String {
    let mut page = Page::default();
    pod_template(template, &mut page);
    tabs::align(&page.into_text(), tabs::DESCRIPTION)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tolerations() {
        let check = |value: Value, expected: &str| assert_eq!(toleration(&value), expected);
        check(json!({"key": "a", "operator": "Exists"}), "a op=Exists");
        check(
            json!({"key": "b", "operator": "Equal", "value": "c", "effect": "NoSchedule"}),
            "b=c:NoSchedule",
        );
        check(
            json!({"key": "n", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            "n:NoExecute op=Exists for 300s",
        );
        check(json!({"operator": "Exists"}), "op=Exists");
    }
}
