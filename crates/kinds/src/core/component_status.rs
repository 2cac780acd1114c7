//! ComponentStatus: the health of control plane parts. Computed when asked for, never stored.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ComponentStatus;
use minik8s_api::Computed;
use serde_json::Value;

use crate::table;
use crate::{Cell, Column, Resource, Strategy};

/// Who knows the parts says how they are.
pub fn resource(health: impl Computed + 'static) -> Resource {
    Resource::of::<ComponentStatus>(Components).short(&["cs"]).computed(health)
}

struct Components;

impl Strategy for Components {
    fn warnings(&self, _object: &Value) -> Vec<String> {
        vec!["v1 ComponentStatus is deprecated in v1.19+".to_owned()]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Status", "Message", "Error"]))
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        let mut conditions = object["conditions"].as_array().into_iter().flatten();
        let healthy = conditions.find(|condition| condition["type"] == "Healthy");
        let text =
            |field: &str| healthy.map_or(String::new(), |condition| table::text_or(&condition[field], ""));
        let status = match healthy.and_then(|condition| condition["status"].as_str()) {
            Some("True") => "Healthy",
            Some("False") => "Unhealthy",
            _ => "Unknown",
        };
        vec![table::name(object), status.into(), text("message").into(), text("error").into()]
    }
}
