//! ConfigMap: small configuration data.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::{Cell, Column, Resource, Strategy};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ConfigMap>(ConfigMaps).short(&["cm"])
}

struct ConfigMaps;

impl Strategy for ConfigMaps {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(vec![Column::new("Name", "string"), Column::new("Data", "string"), Column::new("Age", "string")])
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let count = |field: &str| object[field].as_object().map_or(0, |map| map.len());
        let keys = count("data") + count("binaryData");
        vec![object["metadata"]["name"].clone(), json!(keys.to_string()), crate::column::age(object, now)]
    }
}
