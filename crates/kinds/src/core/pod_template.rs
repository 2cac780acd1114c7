//! PodTemplate: a pod description kept for later.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplate;
use serde_json::Value;

use crate::At;
use crate::pod_spec::{cells, template};
use crate::table;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<PodTemplate>(PodTemplates).counted()
}

struct PodTemplates;

impl Strategy for PodTemplates {
    fn default(&self, object: &mut Value) {
        template::fill_in(object, "template");
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        template::validate(&At::root(object).field("template"), errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Containers", "Images", "Pod Labels"]))
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        let [names, images] = cells::containers_and_images(&object["template"]["spec"]);
        let labels = table::labels(&object["template"]["metadata"]["labels"]);
        vec![table::name(object), names, images, labels.into()]
    }
}
