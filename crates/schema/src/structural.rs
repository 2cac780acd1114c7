//! Says what keeps the schema of a CustomResourceDefinition from being structural.
//!
//! Structural means that the shape of an object is told apart from the rules on its values: every field has
//! a type outside `allOf`, `anyOf`, `oneOf` and `not`, and those only restrict. Without that neither pruning
//! nor defaulting nor server-side apply could know what a field is. It reads JSON and not a compiled
//! [`crate::Schema`], because compiling drops what is forbidden.

mod defaults;
mod junctors;
mod lists;

use serde_json::{Map, Value};

use crate::compile::MAX_DEPTH;
use crate::{FieldErrors, Path, Pattern};

type Json = Map<String, Value>;

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// Checks an `openAPIV3Schema` that stands at `base`.
pub fn structural_errors(schema: &Value, base: &Path, errors: &mut FieldErrors) {
    if !is_within(schema, 2 * MAX_DEPTH) {
        return errors.forbidden(base.clone(), format!("must not be nested deeper than {MAX_DEPTH} levels"));
    }
    let before = errors.iter().len();
    node(schema, Level::Root, base, errors);
    if errors.iter().len() == before {
        defaults::check(schema, base, errors);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
}

fn node(schema: &Value, level: Level, path: &Path, errors: &mut FieldErrors) {
    let Some(schema) = schema.as_object() else {
        return errors.type_invalid(path.clone(), schema.clone(), "must be an object");
    };
    check_constructs(schema, path, errors);
    check_type(schema, level, path, errors);
    check_extensions(schema, path, errors);
    check_object_meta(schema, level, path, errors);
    lists::check(schema, path, errors);
    check_pattern(schema, path, errors);
    junctors::check(schema, path, errors);
    children(schema, level, path, errors);
}

fn children(schema: &Json, level: Level, path: &Path, errors: &mut FieldErrors) {
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        node(items, Level::Item, &path.field("items"), errors);
    } else if text(schema, "type") == "array" && !schema.contains_key("items") {
        errors.required(path.field("items"), "must be specified");
    }
    let properties_at = path.field("properties");
    match schema.get("properties") {
        Some(Value::Object(properties)) => {
            for (name, property) in properties {
                node(property, Level::Field, &properties_at.key(name), errors);
            }
        }
        Some(other) => errors.type_invalid(properties_at, other.clone(), "must be an object"),
        None => {}
    }
    let Some(values) = schema.get("additionalProperties") else { return };
    let values_at = path.field("additionalProperties");
    if level == Level::Root && *values != Value::Bool(false) {
        errors.forbidden(values_at.clone(), "must not be used at the root");
    }
    if flag(schema, "x-kubernetes-embedded-resource") {
        errors.forbidden(values_at.clone(), "must not be used if x-kubernetes-embedded-resource is set");
    }
    if values.is_object() {
        node(values, Level::Field, &values_at, errors);
    }
}

/// Parts of JSON Schema that a definition may not use at all.
fn check_constructs(schema: &Json, path: &Path, errors: &mut FieldErrors) {
    for name in ["$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties"] {
        if schema.contains_key(name) {
            errors.forbidden(path.field(name), format!("{name} is not supported"));
        }
    }
    if flag(schema, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(path.field("uniqueItems"), why);
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => {
            let why = "additionalProperties cannot be set to false";
            errors.forbidden(path.field("additionalProperties"), why);
        }
        Some(Value::Bool(true) | Value::Object(_)) if has_properties(schema) => {
            let why = "additionalProperties and properties are mutual exclusive";
            errors.forbidden(path.field("additionalProperties"), why);
        }
        Some(Value::Bool(_) | Value::Object(_)) | None => {}
        Some(other) => {
            errors.type_invalid(
                path.field("additionalProperties"),
                other.clone(),
                "must be a schema or a boolean",
            );
        }
    }
    if schema.get("items").is_some_and(|items| !items.is_object()) {
        errors.forbidden(path.field("items"), "items must be a schema object and not an array");
    }
}

fn check_type(schema: &Json, level: Level, path: &Path, errors: &mut FieldErrors) {
    let at = path.field("type");
    let ty = match schema.get("type") {
        None => "",
        Some(Value::String(ty)) => ty,
        Some(other) => return errors.type_invalid(at, other.clone(), "must be a string"),
    };
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    match ty {
        "" if embedded => {
            errors.required(at, "must be object if x-kubernetes-embedded-resource is true");
        }
        "" if int_or_string || flag(schema, "x-kubernetes-preserve-unknown-fields") => {}
        "" => errors.required(
            at,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Field => "must not be empty for specified object fields",
                Level::Item => "must not be empty for specified array items",
            },
        ),
        "null" => errors.forbidden(at, "type cannot be set to null, use nullable as an alternative"),
        ty if !TYPES.contains(&ty) => errors.not_supported(at, ty, TYPES),
        ty if embedded && ty != "object" => {
            errors.invalid(at, ty, "must be object if x-kubernetes-embedded-resource is true");
        }
        ty if int_or_string => {
            errors.invalid(at, ty, "must be empty if x-kubernetes-int-or-string is true");
        }
        ty if level == Level::Root && ty != "object" => {
            errors.invalid(at, ty, "must be object at the root");
        }
        _ => {}
    }
}

fn check_extensions(schema: &Json, path: &Path, errors: &mut FieldErrors) {
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.get(preserve) == Some(&Value::Bool(false)) {
        errors.invalid(path.field(preserve), false, "must be true or undefined");
    }
    if flag(schema, "x-kubernetes-int-or-string") {
        for name in [preserve, "x-kubernetes-embedded-resource"] {
            if flag(schema, name) {
                let why = "must be false if x-kubernetes-int-or-string is true";
                errors.invalid(path.field(name), true, why);
            }
        }
    }
    if flag(schema, "x-kubernetes-embedded-resource") && !flag(schema, preserve) && !has_properties(schema) {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        errors.required(path.field("properties"), why);
    }
}

/// apiVersion, kind and metadata belong to the server: a schema may restrict names and no more.
fn check_object_meta(schema: &Json, level: Level, path: &Path, errors: &mut FieldErrors) {
    if level != Level::Root && !flag(schema, "x-kubernetes-embedded-resource") {
        return;
    }
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    for (name, ty) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        let Some(Value::Object(property)) = properties.get(name) else { continue };
        if text(property, "type") != ty {
            let at = path.field("properties").key(name).field("type");
            errors.invalid(at, text(property, "type"), format!("must be {ty}"));
        }
    }
    let Some(Value::Object(metadata)) = properties.get("metadata") else { return };
    let only_names = match metadata.get("properties") {
        None => true,
        Some(Value::Object(fields)) => fields.keys().all(|name| name == "name" || name == "generateName"),
        Some(_) => false,
    };
    let only_plain = metadata.keys().all(|key| matches!(key.as_str(), "type" | "properties" | "description"));
    if level == Level::Root && !(only_names && only_plain) {
        let why = "must not specify anything other than name and generateName, \
                   but metadata is implicitly specified";
        errors.forbidden(path.field("properties").key("metadata"), why);
    }
}

fn check_pattern(schema: &Json, path: &Path, errors: &mut FieldErrors) {
    let Some(pattern) = schema.get("pattern").and_then(Value::as_str) else { return };
    if let Some(problem) = Pattern::new(pattern).problem() {
        let why = format!("must be a valid regular expression, but isn't: {problem}");
        errors.invalid(path.field("pattern"), pattern, why);
    }
}

fn has_properties(schema: &Json) -> bool {
    schema.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty())
}

fn flag(schema: &Json, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn text<'a>(schema: &'a Json, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether JSON nests no deeper than `levels`. A schema stands in `properties`, `allOf` and the like of
/// another, so each takes two.
fn is_within(value: &Value, levels: usize) -> bool {
    let mut children: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Object(map) => Box::new(map.values()),
        Value::Array(list) => Box::new(list.iter()),
        _ => return true,
    };
    levels > 0 && children.all(|child| is_within(child, levels - 1))
}

#[cfg(test)]
mod tests;
