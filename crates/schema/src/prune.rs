//! Drops what the schema of a custom kind does not know.
//!
//! Types are not looked at: where a value has another shape than its schema, it stays for validation to
//! refuse.

use serde_json::Value;

use crate::trail::Trail;
use crate::unknown::{self, UnknownField};
use crate::{Path, Schema};

impl Schema {
    /// Removes unknown fields in place and lists them. Embedded resources keep apiVersion, kind and metadata.
    pub fn prune(&self, value: &mut Value) -> Vec<UnknownField> {
        let mut found = Vec::new();
        prune(self, value, &Trail::Base(&Path::root()), &mut found);
        found
    }
}

fn prune(schema: &Schema, value: &mut Value, trail: &Trail<'_>, found: &mut Vec<UnknownField>) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            if let Some(field) = schema.fields.get(name.as_str()) {
                prune(field, value, &Trail::Field(trail, name), found);
            } else if let Some(values) = &schema.values {
                prune(values, value, &Trail::Key(trail, name), found);
            } else if !schema.is_open() && !schema.is_implied(name) {
                unknown::report(found, schema, trail, name);
                return false;
            }
            true
        }),
        Value::Array(list) => {
            let Some(items) = &schema.items else { return };
            for (index, element) in list.iter_mut().enumerate() {
                prune(items, element, &Trail::Index(trail, index), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::{any_json, sample_schema};

    fn schema(json: Value) -> std::sync::Arc<Schema> {
        Schema::compile(&json, &mut |_| None).unwrap()
    }

    #[test]
    fn drops_what_is_not_declared() {
        let check = |schema_json: Value, mut value: Value, pruned: Value, unknown: &[&str]| {
            let found = schema(schema_json).prune(&mut value);
            assert_eq!(value, pruned);
            assert_eq!(found.iter().map(|u| u.path.to_string()).collect::<Vec<_>>(), unknown);
        };
        let object = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        check(object.clone(), json!({"a": 1, "b": 2}), json!({"a": 1}), &["b"]);
        check(
            json!({"type": "array", "items": object}),
            json!([{"a": 1, "c": {}}, 5, {"d": 1}]),
            json!([{"a": 1}, 5, {}]),
            &["[0].c", "[2].d"],
        );
        check(
            json!({"type": "object", "additionalProperties": object}),
            json!({"k": {"a": "", "z": 1}}),
            json!({"k": {"a": ""}}),
            &["[k].z"],
        );
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"in": object}});
        check(open, json!({"x": {"y": 1}, "in": {"b": 1}}), json!({"x": {"y": 1}, "in": {}}), &["in.b"]);
        let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"spec": object}});
        check(
            embedded,
            json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "n"}, "spec": {"b": 1}, "x": 1}),
            json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "n"}, "spec": {}}),
            &["spec.b", "x"],
        );
        check(json!({"type": "object"}), json!({"a": 1}), json!({}), &["a"]);
        check(object, json!("text"), json!("text"), &[]);
    }

    proptest! {
        #[test]
        fn is_idempotent(mut value in any_json()) {
            let schema = schema(sample_schema());
            schema.prune(&mut value);
            let once = value.clone();
            prop_assert_eq!(schema.prune(&mut value), vec![]);
            prop_assert_eq!(value, once);
        }
    }
}
