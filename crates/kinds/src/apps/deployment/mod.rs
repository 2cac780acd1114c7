//! Deployment: rolls a pod template out over ReplicaSets.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::Value;

use crate::At;
use crate::apps::int_or_percent;
use crate::pod_spec::{cells, template, warnings};
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<Deployment>(Deployments).short(&["deploy"]).in_all().counted().status().scale()
}

struct Deployments;

impl Strategy for Deployments {
    fn default(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        fill::field(spec, "replicas", 1);
        fill::field(spec, "revisionHistoryLimit", 10);
        fill::field(spec, "progressDeadlineSeconds", 600);
        if let Some(strategy) = fill::object(spec, "strategy") {
            fill::field(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = fill::object(strategy, "rollingUpdate")
            {
                fill::field(rolling, "maxUnavailable", "25%");
                fill::field(rolling, "maxSurge", "25%");
            }
        }
        template::fill_in(spec, "template");
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        for field in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
            spec.field(field).not_negative(errors);
        }
        template::validate_selector(&spec, "Deployment", errors);
        template::validate_lasting(&spec.field("template"), "Deployment", &[], errors);
        validate_strategy(&spec.field("strategy"), errors);
        let deadline = spec.field("progressDeadlineSeconds");
        let settled = spec.field("minReadySeconds").int().unwrap_or(0);
        if deadline.int().is_some_and(|seconds| seconds <= settled) {
            deadline.invalid(errors, "must be greater than minReadySeconds");
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        template::validate_selector_kept(object, old, errors);
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        warnings::of_workload(object)
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(
            &["Name", "Ready", "Up-to-date", "Available", "Age"],
            &["Containers", "Images", "Selector"],
        ))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let count = |value: &Value| value.as_i64().unwrap_or(0);
        let [names, images, selector] = cells::wide_cells(spec);
        vec![
            table::name(object),
            format!("{}/{}", count(&status["readyReplicas"]), count(&spec["replicas"])).into(),
            cells::number(&status["updatedReplicas"]),
            cells::number(&status["availableReplicas"]),
            table::age(object, now),
            names,
            images,
            selector,
        ]
    }
}

fn validate_strategy(strategy: &At<'_>, errors: &mut FieldErrors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" if rolling.exists() => {
            rolling.forbidden(errors, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            let valid = [&unavailable, &surge].map(|amount| int_or_percent::validate(amount, errors));
            int_or_percent::validate_at_most_all(&unavailable, errors);
            if valid == [true, true]
                && int_or_percent::is_zero(&unavailable)
                && int_or_percent::is_zero(&surge)
            {
                unavailable.invalid(errors, "may not be 0 when `maxSurge` is 0");
            }
        }
        _ => strategy.field("type").not_supported(errors, &["Recreate", "RollingUpdate"]),
    }
}

#[cfg(test)]
mod tests;
