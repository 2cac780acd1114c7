//! ResourceSlice: devices that a node or network offers.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::resource::v1::ResourceSlice;
use serde_json::Value;

use crate::At;
use crate::table::{self, UNSET};
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

const MAX_DEVICES: usize = 128;

/// Where the devices are: exactly one of these.
const PLACES: &[&str] = &["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];

pub(crate) fn resource() -> Resource {
    Resource::of::<ResourceSlice>(Slices).counted()
}

struct Slices;

impl Strategy for Slices {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        spec.field("driver").need_form(errors, format::subdomain);
        let pool = spec.field("pool");
        let name = pool.field("name");
        if name.need(errors) {
            for part in name.text().split('/') {
                name.problems(errors, format::subdomain(part));
            }
        }
        pool.field("generation").not_negative(errors);
        let count = pool.field("resourceSliceCount");
        if count.int().unwrap_or_default() <= 0 {
            count.invalid(errors, "must be greater than zero");
        }
        let places = PLACES.iter().filter(|place| {
            let place = spec.field(place);
            place.is_set() && place.value != false
        });
        match places.count() {
            0 => spec.required(
                errors,
                "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
            ),
            1 => {}
            _ => spec.invalid(
                errors,
                "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
            ),
        }
        validate_devices(&spec.field("devices"), errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object).field("spec"), At::root(old).field("spec"));
        for field in ["driver", "nodeName", "nodeSelector", "allNodes"] {
            new.field(field).unchanged(errors, &old.field(field));
        }
        let pool = |spec: &At<'_>| spec.field("pool").field("name").text().to_owned();
        if pool(&new) != pool(&old) {
            new.field("pool").field("name").invalid(errors, "field is immutable");
        }
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let spec = |field: &str| table::text_or(&object["spec"][field], "");
        vec![("spec.nodeName", spec("nodeName")), ("spec.driver", spec("driver"))]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["spec.nodeName", "spec.driver"]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Node", "Driver", "Pool", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        vec![
            table::name(object),
            table::text_or(&spec["nodeName"], UNSET).into(),
            table::text_or(&spec["driver"], "").into(),
            table::text_or(&spec["pool"]["name"], "").into(),
            table::age(object, now),
        ]
    }
}

fn validate_devices(devices: &At<'_>, errors: &mut FieldErrors) {
    if devices.len() > MAX_DEVICES {
        errors.too_many(devices.path.clone(), devices.len(), MAX_DEVICES);
    }
    let mut names = HashSet::new();
    for device in devices.items() {
        let name = device.field("name");
        name.need_form(errors, format::label);
        if !names.insert(name.text()) {
            name.duplicate(errors);
        }
        for (_, capacity) in device.field("capacity").entries() {
            capacity.field("value").quantity_not_negative(errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        let good = json!({"metadata": {"name": "a"}, "spec": {"driver": "gpu.io", "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "gpu-0"}]}});
        check::errors("resourceslices", good.clone(), &[]);
        check::row("resourceslices", good, &["a", "n", "gpu.io", "n", "<unknown>"]);
        check::errors(
            "resourceslices",
            json!({"spec": {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n", "allNodes": true}}),
            &["spec: Invalid value: {"],
        );
    }
}
