//! Merging a configuration into an object without owning anything, as MutatingAdmissionPolicies do.

use minik8s_schema::Schema;
use serde_json::Value;

use super::{ApplyError, check_declared};
use crate::depth;
use crate::fieldset::{FieldPath, PathElement};
use crate::typed;

/// The object with the configuration merged into it. Lists, maps and objects that are atomic may not be part of it:
/// who wants to change one field would replace them all.
pub fn merge_configuration(object: &Value, applied: &Value, schema: &Schema) -> Result<Value, ApplyError> {
    if !applied.is_object() {
        return Err(ApplyError::NotAnObject);
    }
    depth::check(applied).map_err(|_| ApplyError::TooDeep)?;
    check_declared(applied, schema)?;
    typed::keys::check(schema, applied).map_err(|(path, reason)| ApplyError::List { path, reason })?;
    let mut found = Vec::new();
    find_atomic(Some(schema), applied, &mut Vec::new(), &mut found);
    if !found.is_empty() {
        return Err(ApplyError::Atomic(found));
    }
    let mut merged = object.clone();
    typed::merge(Some(schema), &mut merged, applied, 0);
    Ok(merged)
}

fn find_atomic(
    schema: Option<&Schema>,
    value: &Value,
    path: &mut Vec<PathElement>,
    found: &mut Vec<FieldPath>,
) {
    match value {
        Value::Object(fields) => {
            if schema.is_some_and(|schema| schema.atomic) {
                found.push(FieldPath(path.clone()));
            }
            for (name, value) in fields {
                path.push(PathElement::field(name));
                find_atomic(typed::child_schema(schema, name), value, path, found);
                path.pop();
            }
        }
        Value::Array(items) => {
            if typed::is_atomic_list(schema) {
                found.push(FieldPath(path.clone()));
            }
            for (index, value) in items.iter().enumerate() {
                path.push(PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX)));
                find_atomic(typed::items(schema), value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        let text = json!({"type": "string"});
        let schema = json!({"type": "object", "properties": {
            "labels": {"type": "object", "additionalProperties": text},
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text, "b": text}},
            "args": {"type": "array", "items": text},
            "containers": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": text, "image": text}, "required": ["name"]}},
        }});
        let compiled = Schema::compile(&schema, &mut |_| None).unwrap();
        std::sync::Arc::unwrap_or_clone(compiled)
    }

    #[test]
    fn configuration_is_merged_by_keys_and_owns_nothing() {
        let object =
            json!({"labels": {"a": "1"}, "containers": [{"name": "x", "image": "i"}, {"name": "y"}]});
        let applied = json!({"labels": {"b": "2"}, "containers": [{"name": "x", "image": "j"}]});
        let merged = merge_configuration(&object, &applied, &schema()).unwrap();
        assert_eq!(
            merged,
            json!({"labels": {"a": "1", "b": "2"}, "containers": [{"name": "x", "image": "j"}, {"name": "y"}]})
        );
    }

    #[test]
    fn configuration_may_not_hold_atomic_or_unknown_values() {
        let check = |applied: Value, expected: &str| {
            let error = merge_configuration(&json!({}), &applied, &schema()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            json!({"selector": {"a": "1"}, "args": ["x"]}),
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .selector, .args",
        );
        check(json!({"nope": 1}), ".nope: field not declared in schema");
    }
}
