//! The metadata that the server owns: names, uid, times, generation.

use jiff::Timestamp;
use minik8s_api::{Definition, FieldErrors, Path};
use serde_json::{Map, Value};

use super::Call;
use crate::catalog::Served;
use crate::custom;
use crate::error::{ApiError, Result};
use crate::object::Object;

/// Names made by generateName have this many random characters.
const SUFFIX: usize = 5;
const MAX_GENERATED_BASE: usize = 63 - SUFFIX;

/// Fills in the metadata of a new object.
pub fn begin(call: &Call, object: &mut Value) -> Result<()> {
    let served = &call.served;
    let namespace = call.namespace.clone();
    let metadata = object.metadata_mut();
    if served.namespaced {
        match metadata.get("namespace").and_then(Value::as_str).unwrap_or_default() {
            "" => drop(metadata.insert("namespace".into(), namespace.into())),
            given if given == namespace => {}
            _ => {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
        }
    } else {
        metadata.shift_remove("namespace");
    }
    let named = metadata.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    let base = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
    if !named && !base.is_empty() {
        let end =
            (0..=base.len().min(MAX_GENERATED_BASE)).rev().find(|&i| base.is_char_boundary(i)).unwrap_or(0);
        let name = format!("{}{}", &base[..end], random_suffix());
        metadata.insert("name".into(), name.into());
    }
    for field in
        ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
    {
        metadata.shift_remove(field);
    }
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".into(), timestamp(call.now).into());
    if served.generation {
        metadata.insert("generation".into(), 1.into());
    }
    drop_empty(metadata);
    Ok(())
}

/// Nothing is said by not being there, not by being empty: the same object always looks the same.
fn drop_empty(metadata: &mut Map<String, Value>) {
    for field in ["labels", "annotations", "ownerReferences", "finalizers", "managedFields"] {
        let empty = match metadata.get(field) {
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if empty {
            metadata.shift_remove(field);
        }
    }
}

/// Carries over what an update may not change or need not repeat.
pub fn carry_over(call: &Call, object: &mut Value, old: &Value) {
    let old_metadata = &old["metadata"];
    let is_main = call.subresource.is_empty();
    let metadata = object.metadata_mut();
    for field in
        ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"]
    {
        match old_metadata.get(field) {
            Some(value) => drop(metadata.insert(field.into(), value.clone())),
            None => drop(metadata.shift_remove(field)),
        }
    }
    for field in ["name", "namespace", "uid"] {
        let missing = metadata.get(field).and_then(Value::as_str).unwrap_or_default().is_empty();
        if missing && let Some(value) = old_metadata.get(field) {
            metadata.insert(field.into(), value.clone());
        }
    }
    if !is_main {
        for field in ["ownerReferences", "finalizers"] {
            match old_metadata.get(field) {
                Some(value) => drop(metadata.insert(field.into(), value.clone())),
                None => drop(metadata.shift_remove(field)),
            }
        }
    }
    drop_empty(metadata);
}

/// Counts a change of anything but metadata and status.
pub fn count_generation(served: &Served, object: &mut Value, old: &Value) {
    if !served.generation {
        return;
    }
    fn own(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status" | "kind" | "apiVersion"))
    }
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(1);
    let changed = own(object).ne(own(old));
    object.metadata_mut().insert("generation".into(), (generation + i64::from(changed)).into());
}

/// Validates a whole object, new (`old` is None) or changed through the call's subresource.
pub fn validate(call: &Call, object: &Value, old: Option<&Value>) -> Result<()> {
    let served = &call.served;
    let mut errors = FieldErrors::default();
    minik8s_api::validate_metadata(served.resource(), object, &mut errors);
    if served.is_custom() {
        let mut found = FieldErrors::default();
        served.schema().validate(object, &Path::root(), &mut found);
        if let (Some(old), Definition::Custom(schema)) = (old, &served.definition) {
            found = custom::without_unchanged(found, object, old, schema);
        }
        found.iter().for_each(|error| errors.push(error.kind, error.path.clone(), error.message.clone()));
        custom::validate_rules(call, object, old, &mut errors);
    }
    // Status is the controllers' word; bindings and approvals are checked where they are made.
    let touches_spec = matches!(call.subresource.as_str(), "" | "scale" | "ephemeralcontainers" | "resize");
    if touches_spec {
        served.strategy.validate(object, &mut errors);
        if let Some(old) = old.filter(|_| is_definition(served) && !errors.is_empty()) {
            errors = custom::without_unchanged_rules(errors, object, old);
        }
    }
    if let Some(old) = old {
        minik8s_api::validate_metadata_update(served.resource(), object, old, &mut errors);
        if touches_spec {
            let door = if call.subresource == "scale" { "" } else { &call.subresource };
            served.strategy.validate_update(object, old, &mut errors);
            served.strategy.validate_change(door, object, old, &mut errors);
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&served.group, &served.kind, object.name(), errors))
}

fn is_definition(served: &Served) -> bool {
    served.group == "apiextensions.k8s.io" && served.plural == "customresourcedefinitions"
}

/// RFC 3339 in whole seconds, as Kubernetes writes times.
pub fn timestamp(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Random letters and digits without those that could form words or be mistaken for each other.
pub fn random_suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    (0..SUFFIX).map(|_| char::from(ALPHABET[rand::random_range(0..ALPHABET.len())])).collect()
}
