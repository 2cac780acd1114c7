//! ControllerRevision: one past state of a StatefulSet or DaemonSet.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::Value;

use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{pod_spec::cells, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<ControllerRevision>(ControllerRevisions)
}

struct ControllerRevisions;

impl Strategy for ControllerRevisions {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let object = At::root(object);
        if !object.field("data").exists() {
            object.field("data").required(errors, "data is mandatory");
        }
        object.field("revision").not_negative(errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        At::root(object).field("data").unchanged(errors, &At::root(old).field("data"));
    }

    fn columns(&self) -> Option<Vec<Column>> {
        let mut columns = table::texts(&["Name", "Controller", "Revision", "Age"]);
        columns[2].ty = "integer".to_owned();
        Some(columns)
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let revision = cells::number(&object["revision"]);
        vec![table::name(object), controller(object).into(), revision, table::age(object, now)]
    }
}

/// `statefulset.apps/web`.
fn controller(object: &Value) -> String {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let Some(owner) = owners.into_iter().find(|owner| owner["controller"] == true) else {
        return table::NONE.to_owned();
    };
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let kind = text("kind").to_lowercase();
    match text("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text("name")),
        None => format!("{kind}/{}", text("name")),
    }
}
