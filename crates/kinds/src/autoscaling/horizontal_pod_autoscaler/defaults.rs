//! What an autoscaler gets if its author says nothing.

use serde_json::{Value, json};

use crate::fill;

/// The target if there is no metric at all.
pub(super) const CPU_PERCENT: i64 = 80;

pub(super) fn fill(object: &mut Value) {
    let Some(spec) = fill::object(object, "spec") else { return };
    fill::field(spec, "minReplicas", 1);
    if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
        spec["metrics"] = json!([cpu_metric(CPU_PERCENT)]);
    }
    if let Some(behavior) = spec.get_mut("behavior").filter(|behavior| behavior.is_object()) {
        fill_behavior(behavior);
    }
}

pub(super) fn cpu_metric(percent: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": percent } },
    })
}

/// Up: at once, by four pods or doubling, whichever is more. Down: anything, after the window that the
/// controller has as its default.
fn fill_behavior(behavior: &mut Value) {
    if let Some(up) = fill::object(behavior, "scaleUp") {
        fill::field(up, "stabilizationWindowSeconds", 0);
        fill::field(up, "selectPolicy", "Max");
        fill::field(
            up,
            "policies",
            json!([
                { "type": "Pods", "value": 4, "periodSeconds": 15 },
                { "type": "Percent", "value": 100, "periodSeconds": 15 },
            ]),
        );
    }
    if let Some(down) = fill::object(behavior, "scaleDown") {
        fill::field(down, "selectPolicy", "Max");
        fill::field(down, "policies", json!([{ "type": "Percent", "value": 100, "periodSeconds": 15 }]));
    }
}
