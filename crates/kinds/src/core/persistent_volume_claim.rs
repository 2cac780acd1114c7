//! PersistentVolumeClaim: asks for a piece of storage.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};

use super::volume_access::{self, class, phase, short_modes};
use crate::At;
use crate::fill;
use crate::table::{self, UNSET};
use crate::{Cell, Column, FieldErrors, Quantity, Resource, Strategy, validate_label_selector};

pub(crate) fn resource() -> Resource {
    Resource::of::<PersistentVolumeClaim>(Claims).short(&["pvc"]).status()
}

struct Claims;

impl Strategy for Claims {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = fill::object(object, "spec") {
            default_spec(spec);
        }
        if let Some(status) = fill::object(object, "status") {
            fill::field(status, "phase", "Pending");
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({ "phase": "Pending" });
        settle_data_sources(object);
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value) {
        settle_data_sources(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(&At::root(object).field("spec"), errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let status = &old["status"];
        validate_spec_update(&At::root(object).field("spec"), &At::root(old).field("spec"), status, errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(
            &[
                "Name",
                "Status",
                "Volume",
                "Capacity",
                "Access Modes",
                "StorageClass",
                "VolumeAttributesClass",
                "Age",
            ],
            &["VolumeMode"],
        ))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let volume = table::text_or(&spec["volumeName"], "");
        let (capacity, modes) = match volume.is_empty() {
            true => (String::new(), String::new()),
            false => {
                (table::text_or(&status["capacity"]["storage"], "0"), short_modes(&status["accessModes"]))
            }
        };
        vec![
            table::name(object),
            phase(object).into(),
            volume.into(),
            capacity.into(),
            modes.into(),
            class(object).into(),
            table::text_or(&spec["volumeAttributesClassName"], UNSET).into(),
            table::age(object, now),
            table::text_or(&spec["volumeMode"], UNSET).into(),
        ]
    }
}

/// Also for the claims that StatefulSets make.
pub(crate) fn default_spec(spec: &mut Value) {
    fill::field(spec, "volumeMode", "Filesystem");
}

/// Also for the claims that StatefulSets and pods make.
pub(crate) fn validate_spec(spec: &At<'_>, errors: &mut FieldErrors) {
    volume_access::validate(spec, "at least 1 access mode is required", errors);
    let selector = spec.field("selector");
    validate_label_selector(selector.value, &selector.path, errors);
    let resources = spec.field("resources");
    let storage = At { path: resources.path.key("storage"), value: &resources.value["requests"]["storage"] };
    match storage.exists() {
        true => drop(storage.quantity_positive(errors)),
        false => storage.required(errors, ""),
    }
    validate_data_source(&spec.field("dataSource"), errors);
    validate_data_source(&spec.field("dataSourceRef"), errors);
}

fn validate_data_source(source: &At<'_>, errors: &mut FieldErrors) {
    if !source.exists() {
        return;
    }
    source.field("name").need(errors);
    let kind = source.field("kind");
    if kind.need(errors) && !source.field("apiGroup").is_set() && kind.text() != "PersistentVolumeClaim" {
        errors.invalid(
            source.path.clone(),
            kind.text(),
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        );
    }
}

/// Only a bound claim may grow; a volume is chosen once.
fn validate_spec_update(new: &At<'_>, old: &At<'_>, status: &Value, errors: &mut FieldErrors) {
    let mut compared = new.value.clone();
    if !old.field("volumeName").is_set() {
        fill::restore(&mut compared, old.value, "volumeName");
    }
    // A claim that was made before there was a default class gets it later.
    if !old.field("storageClassName").exists() {
        fill::restore(&mut compared, old.value, "storageClassName");
    }
    fill::restore(&mut compared, old.value, "volumeAttributesClassName");
    if status["phase"] == "Bound" {
        fill::restore(&mut compared, old.value, "resources");
    }
    if compared != *old.value {
        new.forbidden(
            errors,
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
    let size = |value: &Value| Quantity::from_json(&value["resources"]["requests"]["storage"]).ok();
    let capacity = Quantity::from_json(&status["capacity"]["storage"]).unwrap_or(Quantity::ZERO);
    if let (Some(wanted), Some(before)) = (size(new.value), size(old.value))
        && wanted < before
        && wanted < capacity
    {
        new.field("resources")
            .field("requests")
            .field("storage")
            .forbidden(errors, "field can not be less than status.capacity");
    }
}

/// `dataSource` and `dataSourceRef` mean the same, as long as the source is in the claim's own namespace.
fn settle_data_sources(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let (source, reference) = (spec["dataSource"].take(), spec["dataSourceRef"].take());
    let same_namespace = reference["namespace"].is_null();
    let (source, reference) = match (source.is_null(), reference.is_null()) {
        (false, true) => (source.clone(), source),
        (true, false) if same_namespace => (reference.clone(), reference),
        _ => (source, reference),
    };
    for (field, value) in [("dataSource", source), ("dataSourceRef", reference)] {
        match value.is_null() {
            true => fill::remove(spec, field),
            false => spec[field] = value,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    fn claim(size: &str, phase: &str) -> Value {
        json!({
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase, "capacity": {"storage": "5Gi"}},
        })
    }

    #[test]
    fn validation() {
        check::errors("persistentvolumeclaims", claim("1Gi", "Pending"), &[]);
        check::errors(
            "persistentvolumeclaims",
            claim("0", "Pending"),
            &["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"],
        );
        check::errors(
            "persistentvolumeclaims",
            claim("x", "Pending"),
            &["spec.resources[storage]: Invalid value: \"x\": quantities must match"],
        );
        check::errors(
            "persistentvolumeclaims",
            json!({"spec": {"volumeMode": "Raw", "storageClassName": "A", "dataSource": {"kind": "X"}}}),
            &[
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.volumeMode: Unsupported value: \"Raw\": supported values: \"Block\", \"Filesystem\"",
                "spec.storageClassName: Invalid value: \"A\"",
                "spec.resources[storage]: Required value",
                "spec.dataSource.name: Required value",
                "spec.dataSource: Invalid value: \"X\": must be 'PersistentVolumeClaim'",
            ],
        );
        check::errors(
            "persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOncePod", "Any"], "resources": {"requests": {"storage": 1}}}}),
            &[
                "spec.accessModes: Unsupported value: \"Any\"",
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod",
            ],
        );
    }

    #[test]
    fn updates() {
        let name = "persistentvolumeclaims";
        check::update_errors(name, claim("9Gi", "Bound"), claim("5Gi", "Bound"), &[]);
        check::update_errors(
            name,
            claim("9Gi", "Pending"),
            claim("5Gi", "Pending"),
            &["spec: Forbidden: spec is immutable after creation except"],
        );
        check::update_errors(
            name,
            claim("1Gi", "Bound"),
            claim("5Gi", "Bound"),
            &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
        );
        let mut bound = claim("5Gi", "Pending");
        bound["spec"]["volumeName"] = json!("pv");
        check::update_errors(name, bound.clone(), claim("5Gi", "Pending"), &[]);
        check::update_errors(name, claim("5Gi", "Pending"), bound, &["spec: Forbidden"]);
    }

    #[test]
    fn columns() {
        let mut object = claim("5Gi", "Bound");
        object["spec"]["volumeName"] = json!("pv-1");
        object["spec"]["storageClassName"] = json!("fast");
        object["status"]["accessModes"] = json!(["ReadWriteMany", "ReadWriteOnce"]);
        check::row(
            "persistentvolumeclaims",
            object,
            &["data", "Bound", "pv-1", "5Gi", "RWO,RWX", "fast", "<unset>", "<unknown>", "<unset>"],
        );
    }

    #[test]
    fn data_sources_are_one() {
        let mut object = json!({"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}}});
        check::find("persistentvolumeclaims").strategy.prepare_update(&mut object, &json!({}));
        assert_eq!(object["spec"]["dataSourceRef"], json!({"kind": "PersistentVolumeClaim", "name": "a"}));
    }
}
