//! `kubectl get hpa`.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::table::{self, NONE, UNKNOWN, UNSET};
use crate::{Cell, Column};

const SHOWN_METRICS: usize = 2;

pub(super) fn columns() -> Vec<Column> {
    table::texts(&["Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"])
}

pub(super) fn row(object: &Value, now: Timestamp) -> Vec<Cell> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    vec![
        table::name(object),
        format!("{}/{}", table::text_or(&target["kind"], ""), table::text_or(&target["name"], "")).into(),
        metrics(&spec["metrics"], &status["currentMetrics"]).into(),
        table::text_or(&spec["minReplicas"], UNSET).into(),
        json!(spec["maxReplicas"].as_i64().unwrap_or_default()),
        json!(status["currentReplicas"].as_i64().unwrap_or_default()),
        table::age(object, now),
    ]
}

/// `cpu: 5%/50%, 10/100 (avg) + 1 more...`: what is, and what is wanted.
fn metrics(specs: &Value, current: &Value) -> String {
    let specs = specs.as_array().map_or(&[][..], Vec::as_slice);
    if specs.is_empty() {
        return NONE.to_owned();
    }
    let shown: Vec<String> =
        specs.iter().enumerate().take(SHOWN_METRICS).map(|(i, spec)| metric(spec, &current[i])).collect();
    let shown = shown.join(", ");
    match specs.len().saturating_sub(SHOWN_METRICS) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn metric(spec: &Value, current: &Value) -> String {
    let (source, named) = match spec["type"].as_str().unwrap_or_default() {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "External" => ("external", false),
        _ => return "<unknown type>".to_owned(),
    };
    let (target, current) = (&spec[source]["target"], &current[source]["current"]);
    let value = |of: &Value, field: &str| table::text_or(&of[field], UNKNOWN);
    if named {
        let name = table::text_or(&spec[source]["name"], "");
        let pair = match target["averageValue"].is_null() {
            false => format!("{}/{}", value(current, "averageValue"), value(target, "averageValue")),
            true => format!("{}/{}", percent(current, UNKNOWN), percent(target, "<auto>")),
        };
        return format!("{name}: {pair}");
    }
    match (source, target["averageValue"].is_null()) {
        ("pods", _) => format!("{}/{}", value(current, "averageValue"), value(target, "averageValue")),
        (_, false) => {
            format!("{}/{} (avg)", value(current, "averageValue"), value(target, "averageValue"))
        }
        (_, true) => format!("{}/{}", value(current, "value"), value(target, "value")),
    }
}

fn percent(of: &Value, absent: &str) -> String {
    of["averageUtilization"].as_i64().map_or(absent.to_owned(), |percent| format!("{percent}%"))
}
