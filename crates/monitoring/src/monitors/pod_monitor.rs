//! Targets of a PodMonitor: the pods that it selects, by the port that it names.

use serde_json::Value;

use super::endpoint::{Endpoint, Group};
use super::relabel::LabelSet;
use super::scope::Scope;
use super::service_monitor::is_over;
use crate::discovery::{Kind, Labels, Objects, Role, Target, list, name_of, namespace_of, sanitized, text};

pub fn targets(monitors: &[Value], objects: &Objects, honor: bool, found: &mut Vec<Group>) {
    let scopes: Vec<(&Value, Scope<'_>)> = monitors
        .iter()
        .map(|monitor| (monitor, Scope::new(&monitor["spec"], namespace_of(monitor))))
        .collect();
    if scopes.is_empty() {
        return;
    }
    for pod in objects.of(Kind::Pod) {
        let mut ports: Option<Vec<Target<'_>>> = None;
        for (monitor, _) in scopes.iter().filter(|(_, scope)| scope.takes(pod)) {
            let targets = ports.get_or_insert_with(|| Role::of_pod(pod));
            of_one(monitor, pod, targets, honor, found);
        }
    }
}

fn of_one(monitor: &Value, pod: &Value, targets: &[Target<'_>], honor: bool, found: &mut Vec<Group>) {
    let spec = &monitor["spec"];
    for value in list(&spec["podMetricsEndpoints"]) {
        let Some(endpoint) = Endpoint::new(value, &value["relabelings"]) else { continue };
        if endpoint.honors_labels() != honor {
            continue;
        }
        for target in targets.iter().filter(|target| is_meant(value, &target.labels)) {
            if is_over(&target.labels) && value["filterRunning"] != false {
                continue;
            }
            let labels = labels(monitor, value, pod, &target.labels);
            found.extend(endpoint.target(&target.address[0], namespace_of(pod), labels));
        }
    }
}

/// `port` by name, or `portNumber`, or `targetPort` as of old.
fn is_meant(endpoint: &Value, labels: &Labels<'_>) -> bool {
    let label = |name: &str| labels.get(&format!("__meta_kubernetes_{name}"));
    if label("pod_container_init") == Some("true") {
        return false;
    }
    let number = |wanted: &Value| label("pod_container_port_number") == Some(wanted.to_string().as_str());
    let name = |wanted: &str| label("pod_container_port_name") == Some(wanted);
    match (text(&endpoint["port"]), &endpoint["portNumber"], &endpoint["targetPort"]) {
        ("", wanted @ Value::Number(_), _) | ("", Value::Null, wanted @ Value::Number(_)) => number(wanted),
        ("", Value::Null, Value::String(wanted)) if !wanted.is_empty() => name(wanted),
        ("", ..) => label("pod_container_port_number").is_some(),
        (wanted, ..) => name(wanted),
    }
}

/// As the operator names them.
fn labels(monitor: &Value, endpoint: &Value, pod: &Value, known: &Labels<'_>) -> LabelSet {
    let spec = &monitor["spec"];
    let mut labels = known.to_set();
    let of = |name: &str| known.get(&format!("__meta_kubernetes_{name}")).unwrap_or_default().to_owned();
    let pod_label = |name: &str| text(&pod["metadata"]["labels"][name]).to_owned();
    let mut put = |name: &str, value: String| {
        if !value.is_empty() {
            labels.insert(name.to_owned(), value);
        }
    };
    put("namespace", of("namespace"));
    put("pod", of("pod_name"));
    put("container", of("pod_container_name"));
    for name in list(&spec["podTargetLabels"]).filter_map(Value::as_str) {
        put(&sanitized(name), pod_label(name));
    }
    put("job", format!("{}/{}", namespace_of(monitor), name_of(monitor)));
    put("job", pod_label(text(&spec["jobLabel"])));
    let shown = |value: &Value| match value {
        Value::Number(number) => number.to_string(),
        other => text(other).to_owned(),
    };
    let named = ["port", "portNumber", "targetPort"].map(|field| shown(&endpoint[field]));
    put("endpoint", named.into_iter().find(|one| !one.is_empty()).unwrap_or_default());
    labels
}
