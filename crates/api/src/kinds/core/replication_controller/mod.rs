//! ReplicationController: the forerunner of ReplicaSet.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ReplicationController;
use serde_json::Value;

use crate::kinds::pod_spec::{cells, template};
use crate::kinds::{fill, table};
use crate::{Cell, Column, Resource, Strategy};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ReplicationController>(ReplicationControllers)
        .short(&["rc"])
        .in_all()
        .counted()
        .status()
        .scale()
}

struct ReplicationControllers;

impl Strategy for ReplicationControllers {
    fn default(&self, object: &mut Value) {
        let labels = object["spec"]["template"]["metadata"]["labels"].clone();
        if labels.is_object() {
            fill_if_empty(&mut object["spec"], "selector", &labels);
            if let Some(metadata) = fill::object(object, "metadata") {
                fill_if_empty(metadata, "labels", &labels);
            }
        }
        let Some(spec) = object.get_mut("spec") else { return };
        fill::field(spec, "replicas", 1);
        template::fill_in(spec, "template");
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("status.replicas", object["status"]["replicas"].as_i64().unwrap_or(0).to_string())]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(cells::replica_columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let selector = table::labels(&object["spec"]["selector"]);
        cells::replica_cells(object, selector, now)
    }
}

fn fill_if_empty(holder: &mut Value, field: &str, labels: &Value) {
    if let Some(map) = fill::map(holder, field)
        && map.is_empty()
    {
        *map = labels.as_object().cloned().unwrap_or_default();
    }
}
