//! Fills in the `default`s of a structural schema, as upstream does for custom kinds.

use serde_json::Value;

use crate::Schema;

impl Schema {
    /// Removes nulls from fields that may not be null and have no default to take instead.
    /// Comes before [`Schema::apply_defaults`].
    pub fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(map) => map.retain(|name, value| {
                if let Some(field) = self.fields.get(name.as_str()) {
                    if value.is_null() && !field.nullable && field.default.is_none() {
                        return false;
                    }
                    field.drop_nulls(value);
                } else if let Some(values) = &self.values {
                    values.drop_nulls(value);
                }
                true
            }),
            Value::Array(list) => {
                let Some(items) = &self.items else { return };
                list.iter_mut().for_each(|element| items.drop_nulls(element));
            }
            _ => {}
        }
    }

    /// Adds the defaults of missing fields, and puts them in place of nulls that may not be.
    pub fn apply_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, field) in &self.fields {
                    let Some(default) = &field.default else { continue };
                    match map.get_mut(name.as_ref()) {
                        Some(present) if present.is_null() && !field.nullable => *present = default.clone(),
                        Some(_) => {}
                        None => {
                            map.insert(name.to_string(), default.clone());
                        }
                    }
                }
                for (name, value) in map.iter_mut() {
                    match self.fields.get(name.as_str()) {
                        Some(field) => field.apply_defaults(value),
                        None => apply_to_element(self.values.as_deref(), value),
                    }
                }
            }
            Value::Array(list) => {
                list.iter_mut().for_each(|element| apply_to_element(self.items.as_deref(), element));
            }
            _ => {}
        }
    }
}

fn apply_to_element(schema: Option<&Schema>, value: &mut Value) {
    let Some(schema) = schema else { return };
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
    schema.apply_defaults(value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::{any_json, sample_schema};

    #[test]
    fn fills_in_defaults() {
        let check = |schema: Value, mut value: Value, expected: Value| {
            let schema = Schema::compile(&schema, &mut |_| None).unwrap();
            schema.drop_nulls(&mut value);
            schema.apply_defaults(&mut value);
            assert_eq!(value, expected);
        };
        let object = json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"type": "string", "default": "y", "nullable": true},
            "c": {"type": "string"},
            "d": {"type": "string", "nullable": true},
        }});
        check(object.clone(), json!({}), json!({"a": "x", "b": "y"}));
        check(object.clone(), json!({"a": "1", "b": "2"}), json!({"a": "1", "b": "2"}));
        let nulls = json!({"a": null, "b": null, "c": null, "d": null});
        check(object.clone(), nulls, json!({"a": "x", "b": null, "d": null}));
        check(json!({"type": "array", "items": object}), json!([{}, 1]), json!([{"a": "x", "b": "y"}, 1]));
        // A default is itself completed from the defaults below it.
        let nested = json!({"type": "object", "properties": {"in": {"type": "object", "default": {},
            "properties": {"n": {"type": "integer", "default": 5}}}}});
        check(nested, json!({}), json!({"in": {"n": 5}}));
        // Without a default of its own a missing object stays missing.
        let inner = json!({"type": "object", "properties": {"in": {"type": "object",
            "properties": {"n": {"type": "integer", "default": 5}}}}});
        check(inner.clone(), json!({}), json!({}));
        check(inner, json!({"in": {}}), json!({"in": {"n": 5}}));
        let map = json!({"type": "object", "additionalProperties": {"type": "integer", "default": 1}});
        check(map, json!({"k": null, "l": 2}), json!({"k": 1, "l": 2}));
        let list = json!({"type": "array", "items": {"type": "integer"}});
        check(list, json!([null]), json!([null]));
    }

    proptest! {
        #[test]
        fn is_idempotent(mut value in any_json()) {
            let schema = Schema::compile(&sample_schema(), &mut |_| None).unwrap();
            schema.drop_nulls(&mut value);
            schema.apply_defaults(&mut value);
            let once = value.clone();
            schema.drop_nulls(&mut value);
            schema.apply_defaults(&mut value);
            prop_assert_eq!(value, once);
        }
    }
}
