//! Autoscalers and disruption budgets.

use serde_json::Value;

use super::super::page::{Page, items, shown};
use super::selector;
use crate::print::time;

pub fn autoscaler(object: &Value, page: &mut Page) {
    let (spec, status) = (&object["spec"], &object["status"]);
    page.head(object);
    page.field(0, "CreationTimestamp", time::long(&object["metadata"]["creationTimestamp"]));
    let reference = &spec["scaleTargetRef"];
    page.field(0, "Reference", format!("{}/{}", shown(&reference["kind"]), shown(&reference["name"])));
    page.field(0, "Metrics", "( current / target )");
    let current = items(&status["currentMetrics"]);
    for (i, metric) in items(&spec["metrics"]).iter().enumerate() {
        metric_line(metric, current.get(i).unwrap_or(&Value::Null), page);
    }
    let least = spec["minReplicas"].as_i64().map(|least| least.to_string());
    page.field(0, "Min replicas", least.unwrap_or_else(|| "<unset>".to_owned()));
    page.field(0, "Max replicas", shown(&spec["maxReplicas"]));
    if spec["behavior"].is_object() {
        page.line(0, "Behavior:");
        direction("Scale Up", &spec["behavior"]["scaleUp"], page);
        direction("Scale Down", &spec["behavior"]["scaleDown"], page);
    }
    page.field(
        0,
        &format!("{} pods", shown(&reference["kind"])),
        format!(
            "{} current / {} desired",
            status["currentReplicas"].as_i64().unwrap_or(0),
            status["desiredReplicas"].as_i64().unwrap_or(0)
        ),
    );
    let conditions = items(&status["conditions"]);
    if !conditions.is_empty() {
        page.line(0, "Conditions:");
        page.line(1, "Type\tStatus\tReason\tMessage");
        page.line(1, "----\t------\t------\t-------");
        for condition in conditions {
            page.line(
                1,
                ["type", "status", "reason", "message"].map(|field| shown(&condition[field])).join("\t"),
            );
        }
    }
}

fn metric_line(metric: &Value, now: &Value, page: &mut Page) {
    let unknown = || "<unknown>".to_owned();
    let kind = metric["type"].as_str().unwrap_or_default();
    let (field, what) = match kind {
        "Resource" => ("resource", "on pods"),
        "ContainerResource" => ("containerResource", "of container"),
        "Pods" => ("pods", "on pods"),
        "Object" => ("object", "on object"),
        _ => ("external", "external"),
    };
    let (about, current) = (&metric[field], &now[field]["current"]);
    let target = &about["target"];
    let name =
        if about["name"].is_string() { shown(&about["name"]) } else { shown(&about["metric"]["name"]) };
    let share = target["averageUtilization"].as_i64();
    let value = |object: &Value| {
        ["averageValue", "value"].iter().find_map(|field| object[*field].as_str().map(str::to_owned))
    };
    let (is, wanted) = match share {
        Some(percent) => {
            let is = current["averageUtilization"].as_i64().map(|now| {
                let amount = value(current).map(|amount| format!(" ({amount})")).unwrap_or_default();
                format!("{now}%{amount}")
            });
            (is.unwrap_or_else(unknown), format!("{percent}%"))
        }
        None => (value(current).unwrap_or_else(unknown), value(target).unwrap_or_else(unknown)),
    };
    let label = match (kind, share) {
        ("Resource", Some(_)) => format!("resource {name} on pods  (as a percentage of request)"),
        ("Resource", None) => format!("resource {name} on pods"),
        ("ContainerResource", share) => {
            let suffix = if share.is_some() { "  (as a percentage of request)" } else { "" };
            format!("resource {name} of container \"{}\" on pods{suffix}", shown(&about["container"]))
        }
        ("Pods", _) => format!("{name:?} on pods"),
        _ => format!("{name:?} {what}"),
    };
    page.field(1, &label, format!("{is} / {wanted}"));
}

fn direction(label: &str, rules: &Value, page: &mut Page) {
    if !rules.is_object() {
        return;
    }
    page.line(1, format!("{label}:"));
    if rules["stabilizationWindowSeconds"].is_number() {
        page.line(2, format!("Stabilization Window: {} seconds", rules["stabilizationWindowSeconds"]));
    }
    let policies = items(&rules["policies"]);
    if policies.is_empty() {
        return;
    }
    page.line(2, format!("Select Policy: {}", rules["selectPolicy"].as_str().unwrap_or("Max")));
    page.line(2, "Policies:");
    for policy in policies {
        let text = format!(
            "- Type: {}\tValue: {}\tPeriod: {} seconds",
            shown(&policy["type"]),
            policy["value"],
            policy["periodSeconds"]
        );
        page.line(3, text);
    }
}

pub fn budget(object: &Value, page: &mut Page) {
    let (spec, status) = (&object["spec"], &object["status"]);
    page.field(0, "Name", shown(&object["metadata"]["name"]));
    page.field(0, "Namespace", shown(&object["metadata"]["namespace"]));
    page.maybe(0, "Min available", &spec["minAvailable"]);
    page.maybe(0, "Max unavailable", &spec["maxUnavailable"]);
    match spec["selector"].is_object() {
        true => page.field(0, "Selector", selector(&spec["selector"])),
        false => page.field(0, "Selector", "<unset>"),
    }
    page.line(0, "Status:");
    for (label, field) in [
        ("Allowed disruptions", "disruptionsAllowed"),
        ("Current", "currentHealthy"),
        ("Desired", "desiredHealthy"),
        ("Total", "expectedPods"),
    ] {
        page.field(2, label, status[field].as_i64().unwrap_or(0));
    }
}
