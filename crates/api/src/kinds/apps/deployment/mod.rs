//! Deployment: rolls a pod template out over ReplicaSets.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::Value;

use crate::kinds::pod_spec::{cells, template};
use crate::kinds::{fill, table};
use crate::{Cell, Column, Resource, Strategy};

pub(in crate::kinds) fn resource() -> Resource {
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
