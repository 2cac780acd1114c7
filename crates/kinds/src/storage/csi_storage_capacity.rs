//! CSIStorageCapacity: how much storage is left where.

use jiff::Timestamp;
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use serde_json::Value;

use crate::At;
use crate::table::{self, UNSET};
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format, validate_label_selector};

pub(crate) fn resource() -> Resource {
    Resource::of::<CSIStorageCapacity>(Capacities)
}

struct Capacities;

impl Strategy for Capacities {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        let class = root.field("storageClassName");
        class.problems(errors, format::subdomain(class.text()));
        let topology = root.field("nodeTopology");
        validate_label_selector(topology.value, &topology.path, errors);
        root.field("capacity").quantity_not_negative(errors);
        root.field("maximumVolumeSize").quantity_not_negative(errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object), At::root(old));
        for field in ["nodeTopology", "storageClassName"] {
            new.field(field).unchanged(errors, &old.field(field));
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "StorageClassName", "Capacity"]))
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        vec![
            table::name(object),
            table::text_or(&object["storageClassName"], "").into(),
            table::text_or(&object["capacity"], UNSET).into(),
        ]
    }
}
