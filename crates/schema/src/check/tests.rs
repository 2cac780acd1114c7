use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{any_json, sample_schema};

fn findings(schema: Value, value: &mut Value) -> (Vec<String>, Vec<String>) {
    let schema = Schema::compile(&schema, &mut |_| None).unwrap();
    let found = schema.check(value);
    (
        found.mismatches.iter().map(ToString::to_string).collect(),
        found.unknown.iter().map(ToString::to_string).collect(),
    )
}

#[test]
fn wrong_types_are_mismatches() {
    let check = |field: Value, value: Value, expected: &str| {
        let schema = json!({"type": "object", "properties": {"x": field}});
        let (mismatches, _) = findings(schema, &mut json!({"x": value}));
        match expected {
            "" => assert_eq!(mismatches, Vec::<String>::new(), "{value}"),
            _ => assert_eq!(mismatches, [format!("json: cannot unmarshal {expected}")], "{value}"),
        }
    };
    let int32 = json!({"type": "integer", "format": "int32"});
    check(int32.clone(), json!(5), "");
    check(int32.clone(), json!("five"), "string \"five\" into field x of type int32");
    check(int32.clone(), json!(1.5), "number 1.5 into field x of type int32");
    check(int32, json!(3_000_000_000u32), "number 3000000000 into field x of type int32");
    check(json!({"type": "integer", "format": "int64"}), json!(3_000_000_000u32), "");
    check(
        json!({"type": "integer"}),
        json!(u64::MAX),
        "number 18446744073709551615 into field x of type int64",
    );
    check(json!({"type": "string"}), json!(1), "number 1 into field x of type string");
    check(json!({"type": "string"}), json!({}), "object into field x of type string");
    check(json!({"type": "boolean"}), json!("true"), "string \"true\" into field x of type bool");
    check(json!({"type": "object"}), json!([]), "array into field x of type object");
    check(json!({"type": "array"}), json!(true), "bool true into field x of type array");
    check(json!({"type": "number"}), json!(1), "");
    let list = json!({"type": "array", "items": {"type": "string"}});
    check(list, json!(["a", 1]), "number 1 into field x[1] of type string");
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    check(map, json!({"a/b": true}), "bool true into field x[a/b] of type string");
    let port = json!({"x-kubernetes-int-or-string": true});
    check(port.clone(), json!("http"), "");
    check(port.clone(), json!(80), "");
    check(port, json!(0.5), "number 0.5 into field x of type int32 or string");
    let quantity = json!({"x-kubernetes-int-or-string": true, "format": "quantity"});
    check(quantity.clone(), json!(0.5), "");
    check(quantity.clone(), json!("500m"), "");
    check(quantity, json!("lots"), "string \"lots\" into field x of type quantity (such as 500m or 1Gi)");
    check(
        json!({"type": "string", "format": "byte"}),
        json!("*"),
        "string \"*\" into field x of type base64",
    );
    check(json!({"type": "string", "format": "date-time"}), json!("2024-01-01T00:00:00Z"), "");
    check(json!({"type": "string", "format": "unheard-of"}), json!("*"), "");
    check(json!({}), json!([{"any": "thing"}]), "");
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "containers": {"type": "array", "items": {"type": "object", "properties": {"image": {"type": "string"}}}},
            "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}
    }});
    let mut value =
        json!({"spec": {"replica": 1, "containers": [{"imagee": "x", "zzz": 1}], "raw": {"a": {}}}});
    let (mismatches, unknown) = findings(schema, &mut value);
    assert_eq!(mismatches, Vec::<String>::new());
    assert_eq!(
        unknown,
        [
            r#"unknown field "spec.replica", did you mean "spec.replicas"?"#,
            r#"unknown field "spec.containers[0].imagee", did you mean "spec.containers[0].image"?"#,
            r#"unknown field "spec.containers[0].zzz""#,
        ]
    );
    assert_eq!(value, json!({"spec": {"containers": [{}], "raw": {"a": {}}}}));
}

#[test]
fn null_leaves_a_field_unset() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string"},
        "b": {"type": "string", "nullable": true},
        "list": {"type": "array", "items": {"type": "object"}},
        "args": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    }});
    let mut value = json!({"a": null, "b": null, "list": [null], "args": [null, "x"], "map": {"k": null}});
    let (mismatches, _) = findings(schema.clone(), &mut value);
    assert_eq!(mismatches, Vec::<String>::new());
    assert_eq!(value, json!({"b": null, "list": [{}], "args": ["", "x"], "map": {"k": ""}}));
    let (mismatches, _) = findings(schema, &mut json!(null));
    assert_eq!(mismatches, ["json: cannot unmarshal null into field <root> of type object"]);
}

#[test]
fn answers_are_bounded() {
    let schema = json!({"type": "array", "items": {"type": "object", "properties": {}}});
    let mut value = Value::from(vec![json!({"a": 1}); 1000]);
    assert_eq!(findings(schema.clone(), &mut value).1.len(), 100);
    let mut value = Value::from(vec![json!(1); 1000]);
    assert_eq!(findings(schema, &mut value).0.len(), MAX_REPORTED);
}

proptest! {
    #[test]
    fn never_panics_and_is_idempotent(mut value in any_json()) {
        let schema = Schema::compile(&sample_schema(), &mut |_| None).unwrap();
        let first = schema.check(&mut value);
        let tidy = value.clone();
        let second = schema.check(&mut value);
        prop_assert_eq!(value, tidy);
        prop_assert_eq!(second.unknown, vec![]);
        prop_assert_eq!(first.mismatches, second.mismatches);
    }
}
