//! `allOf`, `anyOf`, `oneOf` and `not`: they may restrict values, but say nothing about structure.

use serde_json::Value;

use super::{Json, check_pattern};
use crate::{FieldErrors, Path};

/// Forbidden inside, and what the refusal says of each.
const FORBIDDEN: &[(&str, &str)] = &[
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("externalDocs", "must be undefined to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
    ("$ref", "$ref is not supported"),
];

/// Checks the branches of a schema that stands outside of any branch.
pub(super) fn check(schema: &Json, path: &Path, errors: &mut FieldErrors) {
    // `x-kubernetes-int-or-string` is customarily spelt out beside it; only there types are allowed.
    let int_or_string = super::flag(schema, "x-kubernetes-int-or-string");
    each_branch(schema, path, &mut |branch, at, first_all_of| {
        if int_or_string && is_type_only(branch) {
            return;
        }
        let Value::Object(branch) = branch else {
            return errors.type_invalid(at.clone(), branch.clone(), "must be an object");
        };
        let spelt_out = int_or_string
            && first_all_of
            && branch.get("anyOf").and_then(Value::as_array).is_some_and(|any| any.iter().all(is_type_only));
        restriction(branch, Some(schema), path, &at, spelt_out, errors);
    });
}

/// One schema inside a branch. `structure` is what the same place says outside of it, at `outside`.
fn restriction(
    schema: &Json,
    structure: Option<&Json>,
    outside: &Path,
    path: &Path,
    skip_any_of: bool,
    errors: &mut FieldErrors,
) {
    for (name, why) in FORBIDDEN {
        if schema.get(*name).is_some_and(|value| !is_empty(value)) {
            errors.forbidden(path.field(name), *why);
        }
    }
    check_pattern(schema, path, errors);
    let Some(structure) = structure else {
        return errors.required(outside.clone(), &format!("because it is defined in {path}"));
    };
    if let Some(items) = schema.get("items").and_then(Value::as_object) {
        let inner = structure.get("items").and_then(Value::as_object);
        restriction(items, inner, &outside.field("items"), &path.field("items"), false, errors);
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let known = structure.get("properties").and_then(Value::as_object);
        for (name, property) in properties {
            let at = path.field("properties").key(name);
            if name == "metadata" {
                errors.forbidden(at.clone(), "must not be specified in a nested context");
            }
            let Some(property) = property.as_object() else { continue };
            let inner = known.and_then(|known| known.get(name)).and_then(Value::as_object);
            restriction(property, inner, &outside.field("properties").key(name), &at, false, errors);
        }
    }
    each_branch(schema, path, &mut |branch, at, _| {
        if skip_any_of && is_type_only(branch) {
            return;
        }
        if let Value::Object(branch) = branch {
            restriction(branch, Some(structure), outside, &at, false, errors);
        }
    });
}

/// Calls `visit` with each branch, its path, and whether it is the first of `allOf`.
fn each_branch(schema: &Json, path: &Path, visit: &mut dyn FnMut(&Value, Path, bool)) {
    for name in ["allOf", "anyOf", "oneOf"] {
        let branches = schema.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, branch) in branches.iter().enumerate() {
            visit(branch, path.field(name).index(index), name == "allOf" && index == 0);
        }
    }
    if let Some(not) = schema.get("not") {
        visit(not, path.field("not"), false);
    }
}

/// `{type: integer}` or `{type: string}` and nothing else.
fn is_type_only(branch: &Value) -> bool {
    let Value::Object(branch) = branch else { return false };
    branch.len() == 1 && matches!(super::text(branch, "type"), "integer" | "string")
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}
