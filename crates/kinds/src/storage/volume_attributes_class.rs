//! VolumeAttributesClass: changeable properties of volumes.

use jiff::Timestamp;
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use serde_json::Value;

use super::storage_class::validate_parameters;
use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

pub(crate) fn resource() -> Resource {
    Resource::of::<VolumeAttributesClass>(Classes).short(&["vac"])
}

struct Classes;

impl Strategy for Classes {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        root.field("driverName").need_form(errors, |name| format::qualified_name(&name.to_ascii_lowercase()));
        let parameters = root.field("parameters");
        if !parameters.is_set() {
            parameters.required(errors, "must contain at least one key/value pair");
        }
        validate_parameters(&parameters, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object), At::root(old));
        for field in ["driverName", "parameters"] {
            let (new, old) = (new.field(field), old.field(field));
            if new.value != old.value {
                new.forbidden(errors, format!("updates to {field} are forbidden."));
            }
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "DriverName", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![table::name(object), table::text_or(&object["driverName"], "").into(), table::age(object, now)]
    }
}
