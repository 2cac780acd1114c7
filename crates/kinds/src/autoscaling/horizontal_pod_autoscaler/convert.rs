//! Between autoscaling/v1 and v2.
//!
//! v1 has fields for one metric, the CPU utilization of all containers. The other metrics, the behaviour,
//! the current metrics and the conditions are JSON texts in annotations: metrics in the flat form that v1
//! clients know, the rest as v2 has them.

use serde_json::{Map, Value, json};

use super::defaults::{CPU_PERCENT, cpu_metric};
use crate::fill;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

pub(super) fn to_v2(object: &mut Value) {
    object["apiVersion"] = json!("autoscaling/v2");
    let [metrics, current, conditions, behavior] =
        [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].map(|name| take_annotation(object, name));
    if let Some(spec) = fill::object(object, "spec") {
        let percent = take(spec, "targetCPUUtilizationPercentage").as_i64();
        let mut list: Vec<Value> = percent.map(cpu_metric).into_iter().collect();
        list.extend(metrics.as_array().into_iter().flatten().map(metric_to_v2));
        if list.is_empty() {
            list.push(cpu_metric(CPU_PERCENT));
        }
        spec["metrics"] = Value::Array(list);
        set(spec, "behavior", behavior);
    }
    let Some(status) = object.get_mut("status").filter(|status| status.is_object()) else { return };
    let percent = take(status, "currentCPUUtilizationPercentage");
    let mut list: Vec<Value> = current.as_array().into_iter().flatten().map(current_to_v2).collect();
    let known = list.iter().any(|metric| metric["resource"]["name"] == "cpu");
    if !percent.is_null() && !known {
        list.insert(
            0,
            json!({
                "type": "Resource",
                "resource": { "name": "cpu", "current": { "averageUtilization": percent } },
            }),
        );
    }
    if !list.is_empty() {
        status["currentMetrics"] = Value::Array(list);
    }
    set(status, "conditions", conditions);
}

pub(super) fn to_v1(object: &mut Value) {
    object["apiVersion"] = json!("autoscaling/v1");
    let mut texts = Vec::new();
    if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
        let metrics = take(spec, "metrics");
        let mut others = Vec::new();
        for metric in metrics.as_array().into_iter().flatten() {
            let percent = &metric["resource"]["target"]["averageUtilization"];
            let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
            if is_cpu && !percent.is_null() && spec["targetCPUUtilizationPercentage"].is_null() {
                spec["targetCPUUtilizationPercentage"] = percent.clone();
            } else {
                others.push(metric_to_v1(metric));
            }
        }
        if spec["targetCPUUtilizationPercentage"].is_null() {
            fill::remove(spec, "targetCPUUtilizationPercentage");
        }
        texts.push((METRICS, if others.is_empty() { Value::Null } else { Value::Array(others) }));
        texts.push((BEHAVIOR, take(spec, "behavior")));
    }
    if let Some(status) = object.get_mut("status").filter(|status| status.is_object()) {
        let current = take(status, "currentMetrics");
        let list = current.as_array().map_or(&[][..], Vec::as_slice);
        if let Some(cpu) = list.iter().find(|metric| metric["resource"]["name"] == "cpu") {
            let percent = cpu["resource"]["current"]["averageUtilization"].clone();
            set(status, "currentCPUUtilizationPercentage", percent);
        }
        let flat: Vec<Value> = list.iter().map(current_to_v1).collect();
        texts.push((CURRENT_METRICS, if flat.is_empty() { Value::Null } else { Value::Array(flat) }));
        texts.push((CONDITIONS, take(status, "conditions")));
    }
    for (name, value) in texts.into_iter().filter(|(_, value)| !value.is_null()) {
        if let Some(metadata) = fill::object(object, "metadata")
            && let Some(annotations) = fill::map(metadata, "annotations")
        {
            annotations.insert(name.to_owned(), json!(value.to_string()));
        }
    }
}

/// A field of v1's flat form and the way to the same thing in v2.
type Pairs = &'static [(&'static str, &'static [&'static str])];

/// The field of each type of metric, and how its parts are called in v1 and in v2.
fn flat_form(ty: &str) -> Option<(&'static str, Pairs)> {
    Some(match ty {
        "Resource" => (
            "resource",
            &[
                ("name", &["name"]),
                ("targetAverageUtilization", &["target", "averageUtilization"]),
                ("targetAverageValue", &["target", "averageValue"]),
            ],
        ),
        "ContainerResource" => (
            "containerResource",
            &[
                ("name", &["name"]),
                ("container", &["container"]),
                ("targetAverageUtilization", &["target", "averageUtilization"]),
                ("targetAverageValue", &["target", "averageValue"]),
            ],
        ),
        "Pods" => (
            "pods",
            &[
                ("metricName", &["metric", "name"]),
                ("selector", &["metric", "selector"]),
                ("targetAverageValue", &["target", "averageValue"]),
            ],
        ),
        "Object" => (
            "object",
            &[
                ("target", &["describedObject"]),
                ("metricName", &["metric", "name"]),
                ("selector", &["metric", "selector"]),
                ("targetValue", &["target", "value"]),
                ("averageValue", &["target", "averageValue"]),
            ],
        ),
        "External" => (
            "external",
            &[
                ("metricName", &["metric", "name"]),
                ("metricSelector", &["metric", "selector"]),
                ("targetValue", &["target", "value"]),
                ("targetAverageValue", &["target", "averageValue"]),
            ],
        ),
        _ => return None,
    })
}

/// In the status the same parts are called `current…` instead of `target…`.
fn current_name(field: &str) -> String {
    match field.strip_prefix("target").filter(|rest| !rest.is_empty()) {
        Some(rest) => format!("current{rest}"),
        None => field.to_owned(),
    }
}

fn metric_to_v1(metric: &Value) -> Value {
    let Some((source, pairs)) = flat_form(metric["type"].as_str().unwrap_or_default()) else {
        return metric.clone();
    };
    let mut flat = Map::new();
    for (name, path) in pairs {
        let value = path.iter().fold(&metric[source], |value, field| &value[field]);
        if !value.is_null() {
            flat.insert((*name).to_owned(), value.clone());
        }
    }
    json!({ "type": metric["type"], source: flat })
}

fn metric_to_v2(metric: &Value) -> Value {
    let Some((source, pairs)) = flat_form(metric["type"].as_str().unwrap_or_default()) else {
        return metric.clone();
    };
    let mut nested = json!({});
    for (name, path) in pairs {
        place(&mut nested, path, metric[source][name].clone());
    }
    let target = &nested["target"];
    let ty = match (target["averageUtilization"].is_null(), target["averageValue"].is_null()) {
        (false, _) => "Utilization",
        (true, false) => "AverageValue",
        (true, true) => "Value",
    };
    place(&mut nested, &["target", "type"], json!(ty));
    json!({ "type": metric["type"], source: nested })
}

fn current_to_v1(metric: &Value) -> Value {
    let Some((source, pairs)) = flat_form(metric["type"].as_str().unwrap_or_default()) else {
        return metric.clone();
    };
    let mut flat = Map::new();
    for (name, path) in pairs {
        let path = path.iter().map(|&field| if field == "target" { "current" } else { field });
        let value = path.fold(&metric[source], |value, field| &value[field]);
        if !value.is_null() {
            flat.insert(current_name(name), value.clone());
        }
    }
    json!({ "type": metric["type"], source: flat })
}

fn current_to_v2(metric: &Value) -> Value {
    let Some((source, pairs)) = flat_form(metric["type"].as_str().unwrap_or_default()) else {
        return metric.clone();
    };
    let mut nested = json!({ "current": {} });
    for (name, path) in pairs {
        let path: Vec<&str> =
            path.iter().map(|&field| if field == "target" { "current" } else { field }).collect();
        place(&mut nested, &path, metric[source][current_name(name)].clone());
    }
    json!({ "type": metric["type"], source: nested })
}

/// Puts a value at the end of a path, unless it is nothing.
fn place(object: &mut Value, path: &[&str], value: Value) {
    if value.is_null() {
        return;
    }
    let mut slot = object;
    for field in path {
        slot = &mut slot[*field];
    }
    *slot = value;
}

fn take(object: &mut Value, field: &str) -> Value {
    object.as_object_mut().and_then(|fields| fields.shift_remove(field)).unwrap_or_default()
}

fn set(object: &mut Value, field: &str, value: Value) {
    if !value.is_null() {
        object[field] = value;
    }
}

/// The JSON in an annotation; the annotation goes. What is not JSON counts as nothing.
fn take_annotation(object: &mut Value, name: &str) -> Value {
    let Some(metadata) = object.get_mut("metadata") else { return Value::Null };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return Value::Null;
    };
    let text = annotations.shift_remove(name);
    if annotations.is_empty() {
        fill::remove(metadata, "annotations");
    }
    text.and_then(|text| serde_json::from_str(text.as_str()?).ok()).unwrap_or_default()
}
