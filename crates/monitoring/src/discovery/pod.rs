//! Role `pod`: every declared port of every container, and each container that declares none.

use std::iter::once;

use serde_json::{Value, json};

use super::target::{Labels, Target, joined, list, text};

pub fn targets(pod: &Value) -> Vec<Target<'_>> {
    let ip = text(&pod["status"]["podIP"]);
    // It has not been given one yet: nobody could reach it.
    if ip.is_empty() {
        return Vec::new();
    }
    let mut common = Labels::default();
    common.add_namespace(pod);
    common.extend(&labels(pod));
    let mut targets = Vec::new();
    for (container, is_init) in containers(pod) {
        let mut own = common.clone();
        own.extend(&container_labels(pod, container, is_init));
        let mut ports = list(&container["ports"]).peekable();
        if ports.peek().is_none() {
            targets.push(Target { address: [ip.to_owned()], labels: own.clone() });
        }
        for port in ports {
            let mut labels = own.clone();
            add_port(&mut labels, port);
            targets.push(Target { address: [joined(ip, &port["containerPort"])], labels });
        }
    }
    targets
}

/// What is known of a pod as a whole.
pub fn labels(pod: &Value) -> Labels<'_> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let mut labels = Labels::default();
    labels.add_metadata("pod", pod);
    labels.add("pod_ip", text(&status["podIP"]));
    labels.add("pod_ready", ready(status));
    labels.add("pod_phase", text(&status["phase"]));
    labels.add("pod_node_name", text(&spec["nodeName"]));
    labels.add("pod_host_ip", text(&status["hostIP"]));
    labels.add("pod_uid", text(&pod["metadata"]["uid"]));
    let controller =
        list(&pod["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == json!(true));
    if let Some(controller) = controller {
        labels.add_some("pod_controller_kind", &controller["kind"]);
        labels.add_some("pod_controller_name", &controller["name"]);
    }
    labels
}

/// What is known of one of its containers.
pub fn container_labels<'a>(pod: &'a Value, container: &'a Value, is_init: bool) -> Labels<'a> {
    let mut labels = Labels::default();
    labels.add("pod_container_name", text(&container["name"]));
    labels.add("pod_container_image", text(&container["image"]));
    labels.add("pod_container_init", if is_init { "true" } else { "false" });
    let field = if is_init { "initContainerStatuses" } else { "containerStatuses" };
    let status = list(&pod["status"][field]).find(|status| status["name"] == container["name"]);
    labels.add("pod_container_id", status.map_or("", |status| text(&status["containerID"])));
    labels
}

pub fn add_port<'a>(labels: &mut Labels<'a>, port: &'a Value) {
    labels.add("pod_container_port_name", text(&port["name"]));
    labels.add("pod_container_port_number", port["containerPort"].to_string());
    labels.add("pod_container_port_protocol", port["protocol"].as_str().unwrap_or("TCP"));
}

/// Its containers, and whether they are init containers.
pub fn containers(pod: &Value) -> impl Iterator<Item = (&Value, bool)> {
    let of = |field, is_init| list(&pod["spec"][field]).zip(std::iter::repeat(is_init));
    once(of("containers", false)).chain(once(of("initContainers", true))).flatten()
}

fn ready(status: &Value) -> &'static str {
    let condition = list(&status["conditions"]).find(|condition| condition["type"] == "Ready");
    match condition.map(|condition| text(&condition["status"])) {
        Some("True") => "true",
        Some("False") => "false",
        _ => "unknown",
    }
}
