//! DaemonSet: one pod on every node that fits.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::Value;

use crate::At;
use crate::apps::int_or_percent;
use crate::pod_spec::{cells, template, warnings};
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<DaemonSet>(DaemonSets).short(&["ds"]).in_all().counted().status()
}

struct DaemonSets;

impl Strategy for DaemonSets {
    fn default(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        fill::field(spec, "revisionHistoryLimit", 10);
        if let Some(strategy) = fill::object(spec, "updateStrategy") {
            fill::field(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = fill::object(strategy, "rollingUpdate")
            {
                fill::field(rolling, "maxUnavailable", 1);
                fill::field(rolling, "maxSurge", 0);
            }
        }
        template::fill_in(spec, "template");
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        for field in ["minReadySeconds", "revisionHistoryLimit"] {
            spec.field(field).not_negative(errors);
        }
        template::validate_selector(&spec, "DaemonSet", errors);
        template::validate_lasting(&spec.field("template"), "DaemonSet", &[], errors);
        validate_strategy(&spec.field("updateStrategy"), errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        template::validate_selector_kept(object, old, errors);
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        warnings::of_workload(object)
    }

    fn columns(&self) -> Option<Vec<Column>> {
        let numbers = ["Desired", "Current", "Ready", "Up-to-date", "Available"];
        let mut columns = vec![Column::new("Name", "string")];
        columns.extend(numbers.map(|name| Column::new(name, "integer")));
        columns.extend(table::texts(&["Node Selector", "Age"]));
        columns.extend(cells::wide_columns(&["Containers", "Images", "Selector"]));
        Some(columns)
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let numbers = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ];
        let mut row = vec![table::name(object)];
        row.extend(numbers.map(|field| cells::number(&status[field])));
        row.push(table::labels(&spec["template"]["spec"]["nodeSelector"]).into());
        row.push(table::age(object, now));
        row.extend(cells::wide_cells(spec));
        row
    }
}

fn validate_strategy(strategy: &At<'_>, errors: &mut FieldErrors) {
    match strategy.field("type").text() {
        "OnDelete" => return,
        "RollingUpdate" => {}
        _ => return strategy.field("type").not_supported(errors, &["OnDelete", "RollingUpdate"]),
    }
    let rolling = strategy.field("rollingUpdate");
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    let mut valid = true;
    for amount in [&unavailable, &surge] {
        valid &= int_or_percent::validate(amount, errors);
        int_or_percent::validate_at_most_all(amount, errors);
    }
    // A node has one pod of the set: it is either replaced in place or next to the old one.
    match (int_or_percent::is_zero(&unavailable), int_or_percent::is_zero(&surge)) {
        _ if !valid => {}
        (true, true) => unavailable.required(errors, "cannot be 0 when `maxSurge` is 0"),
        (false, false) => surge.invalid(errors, "may not be set when `maxUnavailable` is non-zero"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    fn daemon_set(spec: Value) -> Value {
        let template = json!({
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}], "nodeSelector": {"disk": "ssd"}},
        });
        let mut full = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template});
        full.as_object_mut().expect("object").extend(spec.as_object().expect("object").clone());
        json!({"metadata": {"name": "ds", "creationTimestamp": "2026-01-01T11:59:00Z"}, "spec": full})
    }

    #[test]
    fn defaults() {
        let spec = check::defaulted("daemonsets", daemon_set(json!({})))["spec"].clone();
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
        assert_eq!((&spec["updateStrategy"], &spec["revisionHistoryLimit"]), (&rolling, &json!(10)));
    }

    #[test]
    fn validation() {
        let check = |unavailable: Value, surge: Value, expected: &[&str]| {
            let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge});
            let spec = json!({"updateStrategy": {"rollingUpdate": rolling}});
            check::errors("daemonsets", daemon_set(spec), expected);
        };
        let at = "spec.updateStrategy.rollingUpdate";
        check(json!(1), json!(0), &[]);
        check(json!(0), json!("10%"), &[]);
        check(
            json!(0),
            json!(0),
            &[&format!("{at}.maxUnavailable: Required value: cannot be 0 when `maxSurge` is 0")],
        );
        check(json!(1), json!(1), &[&format!("{at}.maxSurge: Invalid value: 1: may not be set")]);
        check(json!("200%"), json!(0), &[&format!("{at}.maxUnavailable: Invalid value: \"200%\"")]);
        let odd = daemon_set(json!({"updateStrategy": {"type": "x"}}));
        check::errors("daemonsets", odd, &["spec.updateStrategy.type: Unsupported value: \"x\""]);
    }

    #[test]
    fn row() {
        let mut object = daemon_set(json!({}));
        object["status"] =
            json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberReady": 1});
        check::row(
            "daemonsets",
            object,
            &["ds", "3", "2", "1", "0", "0", "disk=ssd", "60s", "c", "i:1", "app=a"],
        );
    }
}
