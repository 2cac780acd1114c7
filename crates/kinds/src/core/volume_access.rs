//! What volumes and the claims to them have in common.

use serde_json::Value;

use crate::At;
use crate::table;
use crate::{FieldErrors, format};

const MODES: &[(&str, &str)] = &[
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

/// Access modes, the volume mode and the names of classes.
pub(super) fn validate(spec: &At<'_>, none_given: &str, errors: &mut FieldErrors) {
    let modes = spec.field("accessModes");
    if !modes.is_set() {
        modes.required(errors, none_given);
    }
    for mode in modes.items() {
        if !MODES.iter().any(|(name, _)| *name == mode.text()) {
            errors.not_supported(
                modes.path.clone(),
                mode.value.clone(),
                &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"],
            );
        }
    }
    if modes.len() > 1 && modes.items().any(|mode| mode.text() == "ReadWriteOncePod") {
        modes.forbidden(errors, "may not use ReadWriteOncePod with other access modes");
    }
    spec.field("volumeMode").one_of(errors, &["Block", "Filesystem"]);
    spec.field("storageClassName").has_form(errors, format::subdomain);
    spec.field("volumeAttributesClassName").has_form(errors, format::subdomain);
}

/// `RWO,ROX`.
pub(super) fn short_modes(modes: &Value) -> String {
    let has = |name: &str| modes.as_array().is_some_and(|modes| modes.iter().any(|mode| mode == name));
    let short: Vec<&str> = MODES.iter().filter(|(name, _)| has(name)).map(|(_, short)| *short).collect();
    short.join(",")
}

/// The storage class: an annotation of old goes before the field.
pub(super) fn class(object: &Value) -> String {
    let annotation = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    table::text_or(annotation, &table::text_or(&object["spec"]["storageClassName"], ""))
}

/// The phase, or that the object is going away.
pub(super) fn phase(object: &Value) -> String {
    match object["metadata"]["deletionTimestamp"].is_null() {
        true => table::text_or(&object["status"]["phase"], ""),
        false => "Terminating".to_owned(),
    }
}
