//! A `default` must itself be a valid value of its field.

use serde_json::Value;

use crate::{FieldErrors, Path, Schema};

/// Checks every default of a schema that is structural otherwise.
pub(super) fn check(schema: &Value, path: &Path, errors: &mut FieldErrors) {
    let Value::Object(fields) = schema else { return };
    if let Some(default) = fields.get("default") {
        let at = path.field("default");
        match Schema::compile(schema, &mut |_| None) {
            Ok(compiled) => check_one(&compiled, default, &at, errors),
            Err(error) => errors.invalid(path.clone(), "", error.to_string()),
        }
    }
    if let Some(items) = fields.get("items") {
        check(items, &path.field("items"), errors);
    }
    if let Some(values) = fields.get("additionalProperties") {
        check(values, &path.field("additionalProperties"), errors);
    }
    for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check(property, &path.field("properties").key(name), errors);
    }
}

fn check_one(schema: &Schema, default: &Value, at: &Path, errors: &mut FieldErrors) {
    let mut completed = default.clone();
    if let Some(unknown) = schema.prune(&mut completed).first() {
        return errors.invalid(
            at.clone(),
            default.clone(),
            format!("must not have unknown fields: {}", unknown.path),
        );
    }
    schema.apply_defaults(&mut completed);
    schema.validate(&completed, at, errors);
}
