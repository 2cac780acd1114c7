//! Defaults of a container of any of the three lists.

use serde_json::{Map, Value, json};

use super::quantities::{canonical, canonical_resources};
use crate::fill;

pub(super) fn fill_in(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    fill::field(container, "terminationMessagePath", "/dev/termination-log");
    fill::field(container, "terminationMessagePolicy", "File");
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    fill::field(container, "imagePullPolicy", policy);
    fill::object(container, "resources");
    canonical_resources(container);
    for port in fill::items(container, "ports") {
        fill::field(port, "protocol", "TCP");
    }
    for variable in fill::items(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            value_source(source);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|probe| probe.is_object()) {
            fill_in_probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = container.get_mut("lifecycle").and_then(|lifecycle| lifecycle.get_mut(hook)) {
            http_get(hook);
        }
    }
}

/// Pods ask for what they are limited to, unless they ask for something else.
pub(super) fn request_what_is_limited(container: &mut Value) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = resources.entry("requests").or_insert_with(|| Value::Object(Map::new()));
    if requests.is_null() {
        *requests = Value::Object(Map::new());
    }
    let Some(requests) = requests.as_object_mut() else { return };
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

/// On the host's network a container's port is the host's port.
pub(super) fn open_host_ports(container: &mut Value) {
    for port in fill::items(container, "ports") {
        if matches!(port["hostPort"].as_i64(), None | Some(0)) && !port["containerPort"].is_null() {
            port["hostPort"] = port["containerPort"].clone();
        }
    }
}

/// `latest` moves, other tags and digests stay.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if image.is_empty() || image.contains('@') {
        return "IfNotPresent";
    }
    // A colon before the last slash belongs to a registry's port.
    let name = image.rsplit('/').next().unwrap_or(image);
    match name.split_once(':') {
        None | Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

fn value_source(source: &mut Value) {
    if let Some(field) = source.get_mut("fieldRef") {
        fill::field(field, "apiVersion", "v1");
    }
    if let Some(resource) = source.get_mut("resourceFieldRef") {
        fill::field(resource, "divisor", "0");
        canonical(resource, "divisor");
    }
    if let Some(file) = source.get_mut("fileKeyRef") {
        fill::field(file, "optional", false);
    }
}

fn fill_in_probe(probe: &mut Value) {
    for (field, default) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if matches!(probe[field].as_i64(), None | Some(0)) {
            probe[field] = json!(default);
        }
    }
    http_get(probe);
    if let Some(grpc) = probe.get_mut("grpc").filter(|grpc| grpc.is_object()) {
        fill::field(grpc, "service", "");
    }
}

fn http_get(handler: &mut Value) {
    if let Some(request) = handler.get_mut("httpGet").filter(|request| request.is_object()) {
        fill::field(request, "path", "/");
        fill::field(request, "scheme", "HTTP");
    }
}
