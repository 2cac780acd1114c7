//! PodDisruptionBudget: how many pods of a set may be away at once.

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format, validate_label_selector};

pub(crate) fn resource() -> Resource {
    Resource::of::<PodDisruptionBudget>(Budgets).versioned_puts().short(&["pdb"]).status().counted()
}

struct Budgets;

impl Strategy for Budgets {
    fn prepare_create(&self, object: &mut Value) {
        object["status"] =
            json!({ "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0 });
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let (min, max) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
        if min.exists() && max.exists() {
            spec.invalid(errors, "minAvailable and maxUnavailable cannot be both set");
        }
        for count in [min, max] {
            count.problems(errors, format::count_or_percent(count.value));
        }
        let selector = spec.field("selector");
        validate_label_selector(selector.value, &selector.path, errors);
        spec.field("unhealthyPodEvictionPolicy").one_of(errors, &["AlwaysAllow", "IfHealthyBudget"]);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(vec![
            Column::new("Name", "string"),
            Column::new("Min Available", "string"),
            Column::new("Max Unavailable", "string"),
            Column::new("Allowed Disruptions", "integer"),
            Column::new("Age", "string"),
        ])
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        vec![
            table::name(object),
            table::text_or(&spec["minAvailable"], "N/A").into(),
            table::text_or(&spec["maxUnavailable"], "N/A").into(),
            json!(object["status"]["disruptionsAllowed"].as_i64().unwrap_or_default()),
            table::age(object, now),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        check::errors("poddisruptionbudgets", json!({"spec": {"minAvailable": "50%"}}), &[]);
        check::errors("poddisruptionbudgets", json!({"spec": {"maxUnavailable": 0}}), &[]);
        check::errors(
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": -1, "maxUnavailable": "half", "unhealthyPodEvictionPolicy": "X"}}),
            &[
                "spec: Invalid value: {",
                "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
                "spec.maxUnavailable: Invalid value: \"half\": a valid percent string must be a numeric string",
                "spec.unhealthyPodEvictionPolicy: Unsupported value: \"X\"",
            ],
        );
        check::errors(
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": "101%"}}),
            &["spec.minAvailable: Invalid value: \"101%\": must not be greater than 100%"],
        );
    }

    #[test]
    fn columns() {
        check::row(
            "poddisruptionbudgets",
            json!({"metadata": {"name": "a"}, "spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}}),
            &["a", "50%", "N/A", "2", "<unknown>"],
        );
    }
}
