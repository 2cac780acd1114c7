//! Nulls in an applied configuration.
//!
//! `replicas: null` means: this manager owns the field and wants no value in it. The null takes part in
//! the merge, so that it conflicts with whoever set a value; the result does not hold it, unless the
//! schema allows null there or knows nothing.

use minik8s_schema::Schema;
use serde_json::Value;

use super::{child, items};

pub(crate) fn contains_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(contains_null),
        Value::Object(fields) => fields.values().any(contains_null),
        _ => false,
    }
}

/// Drops the fields that hold null where the schema wants a value.
pub(crate) fn drop_nulls(schema: Option<&Schema>, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            let field_schema = child(schema, name).0;
            if field.is_null() {
                return field_schema.is_none_or(|schema| schema.nullable);
            }
            drop_nulls(field_schema, field);
            true
        }),
        Value::Array(list) => list.iter_mut().for_each(|item| drop_nulls(items(schema), item)),
        _ => {}
    }
}
