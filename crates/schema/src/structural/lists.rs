//! `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`.

use serde_json::Value;

use super::{Json, flag, text};
use crate::{FieldErrors, Path};

const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";

pub(super) fn check(schema: &Json, path: &Path, errors: &mut FieldErrors) {
    check_map_type(schema, path, errors);
    let list_type = schema.get(LIST_TYPE).map(|_| text(schema, LIST_TYPE));
    if list_type.is_some() && text(schema, "type") != "array" {
        let why = format!("must be array if {LIST_TYPE} is specified");
        errors.invalid(path.field("type"), text(schema, "type"), why);
    }
    let keys = match schema.get(LIST_MAP_KEYS) {
        None => Vec::new(),
        Some(Value::Array(keys)) if keys.iter().all(Value::is_string) => {
            keys.iter().filter_map(Value::as_str).collect()
        }
        Some(other) => {
            return errors.type_invalid(
                path.field(LIST_MAP_KEYS),
                other.clone(),
                "must be a list of strings",
            );
        }
    };
    if !keys.is_empty() && list_type != Some("map") {
        errors.invalid(
            path.field(LIST_TYPE),
            list_type,
            format!("must be map if {LIST_MAP_KEYS} is non-empty"),
        );
    }
    match list_type {
        None | Some("atomic") => {}
        Some("set") => check_set_items(schema, path, errors),
        Some("map") => check_map_items(schema, &keys, path, errors),
        Some(other) => errors.not_supported(path.field(LIST_TYPE), other, &["atomic", "map", "set"]),
    }
}

fn check_map_type(schema: &Json, path: &Path, errors: &mut FieldErrors) {
    if !schema.contains_key(MAP_TYPE) {
        return;
    }
    let map_type = text(schema, MAP_TYPE);
    if !matches!(map_type, "atomic" | "granular") {
        errors.not_supported(path.field(MAP_TYPE), map_type, &["atomic", "granular"]);
    }
    if text(schema, "type") != "object" {
        let why = format!("must be object if {MAP_TYPE} is specified");
        errors.invalid(path.field("type"), text(schema, "type"), why);
    }
}

/// Elements of a set are compared as a whole, so they must be scalars or atomic.
fn check_set_items(schema: &Json, path: &Path, errors: &mut FieldErrors) {
    let Some(Value::Object(items)) = schema.get("items") else { return };
    let at = path.field("items");
    if flag(items, "nullable") {
        errors.forbidden(at.field("nullable"), format!("cannot be nullable when {LIST_TYPE} is set"));
    }
    match text(items, "type") {
        "object" if text(items, MAP_TYPE) != "atomic" => {
            let why = format!("must be atomic as item of a list with {LIST_TYPE}=set");
            errors.invalid(at.field(MAP_TYPE), text(items, MAP_TYPE), why);
        }
        "array" if !matches!(text(items, LIST_TYPE), "" | "atomic") => {
            let why = format!("must be atomic as item of a list with {LIST_TYPE}=set");
            errors.invalid(at.field(LIST_TYPE), text(items, LIST_TYPE), why);
        }
        _ => {}
    }
}

/// Elements of a map list are told apart by scalar fields that every element has.
fn check_map_items(schema: &Json, keys: &[&str], path: &Path, errors: &mut FieldErrors) {
    let keys_at = path.field(LIST_MAP_KEYS);
    if keys.is_empty() {
        errors.required(keys_at.clone(), &format!("must not be empty if {LIST_TYPE} is map"));
    }
    let Some(Value::Object(items)) = schema.get("items") else { return };
    let items_at = path.field("items");
    if text(items, "type") != "object" {
        let why = format!("must be object if parent array's {LIST_TYPE} is map");
        errors.invalid(items_at.field("type"), text(items, "type"), why);
    }
    if flag(items, "nullable") {
        errors.forbidden(items_at.field("nullable"), format!("cannot be nullable when {LIST_TYPE} is map"));
    }
    let empty = Json::new();
    let properties = items.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required = items.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (index, key) in keys.iter().enumerate() {
        if keys[..index].contains(key) {
            errors.duplicate(keys_at.index(index), *key);
        }
        let property_at = items_at.field("properties").key(key);
        let Some(Value::Object(property)) = properties.get(*key) else {
            errors.invalid(keys_at.index(index), *key, "entries must all be names of item properties");
            continue;
        };
        if matches!(text(property, "type"), "array" | "object") {
            errors.invalid(property_at.field("type"), text(property, "type"), "must be a scalar type");
        }
        if flag(property, "nullable") {
            errors.forbidden(
                property_at.field("nullable"),
                format!("this property is in {LIST_MAP_KEYS}, so it cannot be nullable"),
            );
        }
        if !property.contains_key("default") && !required.iter().any(|name| name == key) {
            let why = format!(
                "this property is in {LIST_MAP_KEYS}, so it must have a default or be a required property"
            );
            errors.required(property_at.field("default"), &why);
        }
    }
}
