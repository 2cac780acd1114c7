//! Targets of a ServiceMonitor: the endpoints of the Services that it selects, by the port that it names.

use serde_json::Value;

use super::endpoint::{Endpoint, Group};
use super::relabel::LabelSet;
use super::scope::Scope;
use crate::discovery::{Kind, Labels, Objects, Role, Target, list, name_of, namespace_of, sanitized, text};

/// Names the Service of a slice.
const SERVICE: &str = "kubernetes.io/service-name";

/// Of all monitors at once: endpoints are looked at once, however many monitors there are.
pub fn targets(monitors: &[Value], objects: &Objects, honor: bool, found: &mut Vec<Group>) {
    if monitors.is_empty() {
        return;
    }
    let (services, pods) = (objects.by_name(Kind::Service), objects.by_name(Kind::Pod));
    let scopes: Vec<(&Value, Scope<'_>)> = monitors
        .iter()
        .map(|monitor| (monitor, Scope::new(&monitor["spec"], namespace_of(monitor))))
        .collect();
    for slice in objects.of(Kind::EndpointSlice) {
        let name = text(&slice["metadata"]["labels"][SERVICE]);
        let Some(service) = services.get(&(namespace_of(slice), name)) else { continue };
        let mut endpoints: Option<Vec<Target<'_>>> = None;
        for (monitor, _) in scopes.iter().filter(|(_, scope)| scope.takes(service)) {
            let targets = endpoints.get_or_insert_with(|| Role::of_slice(slice, &services, &pods));
            of_one(monitor, service, targets, honor, found);
        }
    }
}

fn of_one(monitor: &Value, service: &Value, targets: &[Target<'_>], honor: bool, found: &mut Vec<Group>) {
    let spec = &monitor["spec"];
    for value in list(&spec["endpoints"]) {
        let Some(endpoint) = Endpoint::new(value, &value["relabelings"]) else { continue };
        if endpoint.honors_labels() != honor {
            continue;
        }
        let mut seen = Vec::new();
        for target in targets.iter().filter(|target| is_meant(value, &target.labels)) {
            if is_over(&target.labels) && value["filterRunning"] != false {
                continue;
            }
            // A slice per family and protocol may name the same port twice.
            if seen.contains(&&target.address[0]) {
                continue;
            }
            seen.push(&target.address[0]);
            let labels = labels(spec, value, service, &target.labels);
            found.extend(endpoint.target(&target.address[0], namespace_of(service), labels));
        }
    }
}

/// `port` is a port of the Service by name; `targetPort` one of the pod, by name or number; neither means all.
fn is_meant(endpoint: &Value, labels: &Labels<'_>) -> bool {
    let label = |name: &str| labels.get(&format!("__meta_kubernetes_{name}"));
    let port = text(&endpoint["port"]);
    if !port.is_empty() {
        return label("endpointslice_port_name") == Some(port);
    }
    match &endpoint["targetPort"] {
        Value::Number(number) => label("pod_container_port_number") == Some(number.to_string().as_str()),
        Value::String(name) if !name.is_empty() => label("pod_container_port_name") == Some(name),
        _ => label("endpointslice_port").is_some(),
    }
}

/// Its pod has ended.
pub fn is_over(labels: &Labels<'_>) -> bool {
    matches!(labels.get("__meta_kubernetes_pod_phase"), Some("Succeeded" | "Failed"))
}

/// As the operator names them.
fn labels(spec: &Value, endpoint: &Value, service: &Value, known: &Labels<'_>) -> LabelSet {
    let mut labels = known.to_set();
    let of = |name: &str| known.get(&format!("__meta_kubernetes_{name}")).unwrap_or_default().to_owned();
    let service_label = |name: &str| text(&service["metadata"]["labels"][name]).to_owned();
    let mut put = |name: &str, value: String| {
        if !value.is_empty() {
            labels.insert(name.to_owned(), value);
        }
    };
    put("namespace", of("namespace"));
    put("service", name_of(service).to_owned());
    put("pod", of("pod_name"));
    put("container", of("pod_container_name"));
    if of("endpointslice_address_target_kind") == "Node" {
        put("node", of("endpointslice_address_target_name"));
    }
    for name in list(&spec["targetLabels"]).filter_map(Value::as_str) {
        put(&sanitized(name), service_label(name));
    }
    for name in list(&spec["podTargetLabels"]).filter_map(Value::as_str) {
        let name = sanitized(name);
        put(&name, of(&format!("pod_label_{name}")));
    }
    put("job", name_of(service).to_owned());
    put("job", service_label(text(&spec["jobLabel"])));
    let port = match &endpoint["targetPort"] {
        Value::Number(number) => number.to_string(),
        other => text(other).to_owned(),
    };
    put(
        "endpoint",
        if text(&endpoint["port"]).is_empty() { port } else { text(&endpoint["port"]).to_owned() },
    );
    labels
}
