//! CSIDriver: what a storage driver can do.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::storage::v1::CSIDriver;
use serde_json::{Value, json};

use crate::At;
use crate::fill;
use crate::table::{self, UNSET};
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

/// Fields that a running driver relies on.
const FIXED: &[&str] = &["attachRequired", "volumeLifecycleModes"];

pub(crate) fn resource() -> Resource {
    Resource::of::<CSIDriver>(Drivers).versioned_puts().counted()
}

struct Drivers;

impl Strategy for Drivers {
    fn default(&self, object: &mut Value) {
        let Some(spec) = fill::object(object, "spec") else { return };
        fill::field(spec, "attachRequired", true);
        fill::field(spec, "podInfoOnMount", false);
        fill::field(spec, "storageCapacity", false);
        fill::field(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) {
            spec["volumeLifecycleModes"] = json!(["Persistent"]);
        }
        fill::field(spec, "requiresRepublish", false);
        fill::field(spec, "seLinuxMount", false);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        spec.field("fsGroupPolicy").one_of(errors, &["File", "None", "ReadWriteOnceWithFSType"]);
        for mode in spec.field("volumeLifecycleModes").items() {
            mode.one_of(errors, &["Ephemeral", "Persistent"]);
        }
        let mut audiences = HashSet::new();
        for request in spec.field("tokenRequests").items() {
            let (audience, expiry) = (request.field("audience"), request.field("expirationSeconds"));
            if !audiences.insert(audience.text()) {
                audience.duplicate(errors);
            }
            if expiry.int().is_some_and(|seconds| seconds < 600) {
                expiry.invalid(errors, "may not specify a duration less than 10 minutes");
            }
            if expiry.int().is_some_and(|seconds| seconds > 1 << 32) {
                expiry.invalid(errors, "may not specify a duration larger than 2^32 seconds");
            }
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object).field("spec"), At::root(old).field("spec"));
        for field in FIXED {
            new.field(field).unchanged(errors, &old.field(field));
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(vec![
            Column::new("Name", "string"),
            Column::new("AttachRequired", "boolean"),
            Column::new("PodInfoOnMount", "boolean"),
            Column::new("StorageCapacity", "boolean"),
            Column::new("TokenRequests", "string"),
            Column::new("RequiresRepublish", "boolean"),
            Column::new("Modes", "string"),
            Column::new("Age", "string"),
        ])
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        let audiences: Vec<String> = spec["tokenRequests"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|request| table::text_or(&request["audience"], ""))
            .collect();
        vec![
            table::name(object),
            json!(spec["attachRequired"] != false),
            json!(spec["podInfoOnMount"] == true),
            json!(spec["storageCapacity"] == true),
            if audiences.is_empty() { UNSET.to_owned() } else { audiences.join(",") }.into(),
            json!(spec["requiresRepublish"] == true),
            table::joined_or(&spec["volumeLifecycleModes"], table::NONE).into(),
            table::age(object, now),
        ]
    }
}
