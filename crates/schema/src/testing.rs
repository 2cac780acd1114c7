//! Generators that the property tests of several modules share.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any JSON, with keys that often meet the fields of [`sample_schema`].
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e6..1e6f64).prop_map(Value::from),
        "[a-z0-9:.T-]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        let key = prop_oneof![
            prop::sample::select(vec![
                "spec", "list", "map", "name", "port", "raw", "object", "count", "kind"
            ])
            .prop_map(str::to_owned),
            "[a-z]{1,4}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<String, Value>>())),
        ]
    })
}

/// A schema with every construct that a walk treats specially.
pub(crate) fn sample_schema() -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "kind": {"type": "string"},
            "spec": {
                "type": "object",
                "default": {"count": 1},
                "properties": {
                    "count": {"type": "integer", "format": "int32", "default": 3, "minimum": 0, "maximum": 9},
                    "name": {"type": "string", "pattern": "^[a-z]+$", "nullable": true, "default": "x"},
                    "port": {"x-kubernetes-int-or-string": true},
                    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                            "properties": {"spec": {"type": "object", "properties": {"name": {"type": "string"}}}}},
                    "object": {"type": "object", "x-kubernetes-embedded-resource": true,
                               "properties": {"spec": {"type": "object", "default": {}}}},
                    "map": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
                    "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                             "maxItems": 4,
                             "items": {"type": "object", "required": ["name"], "properties": {
                                 "name": {"type": "string"},
                                 "count": {"type": "number", "default": 1.5, "multipleOf": 0.5},
                                 "map": {"type": "object", "additionalProperties": {"type": "integer", "default": 7}}
                             },
                             "anyOf": [{"required": ["count"]}, {"properties": {"name": {"enum": ["a", "b"]}}}]}},
                }
            }
        }
    })
}
