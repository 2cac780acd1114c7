//! ReplicaSet: keeps a number of equal pods.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::Value;

use crate::kinds::pod_spec::{cells, template};
use crate::kinds::{fill, table};
use crate::{Cell, Column, Resource, Strategy};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ReplicaSet>(ReplicaSets).short(&["rs"]).in_all().counted().status().scale()
}

struct ReplicaSets;

impl Strategy for ReplicaSets {
    fn default(&self, object: &mut Value) {
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
        let selector = table::selector(&object["spec"]["selector"]);
        cells::replica_cells(object, selector, now)
    }
}
