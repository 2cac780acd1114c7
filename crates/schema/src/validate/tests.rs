use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{any_json, sample_schema};

/// Checks what `{"x": value}` gives against a schema whose field `x` is `field`.
fn check(field: Value, value: Value, expected: &[&str]) {
    let schema = json!({"type": "object", "properties": {"x": field}});
    let schema = Schema::compile(&schema, &mut |_| None).unwrap();
    let mut errors = FieldErrors::default();
    schema.validate(&json!({"x": value}), &Path::root(), &mut errors);
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected, "{field} {value}");
}

#[test]
fn types() {
    check(json!({"type": "integer"}), json!(1), &[]);
    check(json!({"type": "integer"}), json!(1.0), &[]);
    let words = [r#"x: Invalid value: "string": x in body must be of type integer: "string""#];
    check(json!({"type": "integer"}), json!("1"), &words);
    let words = [r#"x: Invalid value: "null": x in body must be of type string: "null""#];
    check(json!({"type": "string"}), json!(null), &words);
    check(json!({"type": "string", "nullable": true}), json!(null), &[]);
    let words = [r#"x: Invalid value: "boolean": x in body must be of type integer,string: "boolean""#];
    check(json!({"x-kubernetes-int-or-string": true}), json!(true), &words);
    let words = ["x: Invalid value: 3000000000: x in body must be of type integer with format int32"];
    check(json!({"type": "integer", "format": "int32"}), json!(3_000_000_000u32), &words);
    let words = [r#"x: Invalid value: "soon": x in body must be of type date-time: "soon""#];
    check(json!({"type": "string", "format": "date-time"}), json!("soon"), &words);
    check(
        json!({"type": "array", "items": {"type": "string"}}),
        json!(["a", {}]),
        &[r#"x[1]: Invalid value: "object": x[1] in body must be of type string: "object""#],
    );
}

#[test]
fn numbers() {
    let bounded = json!({"type": "integer", "minimum": 1, "maximum": 10});
    check(bounded.clone(), json!(10), &[]);
    check(
        bounded.clone(),
        json!(15),
        &["x: Invalid value: 15: x in body should be less than or equal to 10"],
    );
    check(bounded, json!(0), &["x: Invalid value: 0: x in body should be greater than or equal to 1"]);
    let open = json!({"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1, "exclusiveMaximum": true});
    check(open.clone(), json!(0.5), &[]);
    check(open.clone(), json!(0), &["x: Invalid value: 0: x in body should be greater than 0"]);
    check(open, json!(1.0), &["x: Invalid value: 1.0: x in body should be less than 1"]);
    check(json!({"type": "integer", "multipleOf": 3}), json!(9), &[]);
    check(
        json!({"type": "integer", "multipleOf": 3}),
        json!(8),
        &["x: Invalid value: 8: x in body should be a multiple of 3"],
    );
    check(json!({"type": "number", "multipleOf": 0.1}), json!(0.3), &[]);
    check(
        json!({"type": "integer", "maximum": i64::MAX}),
        json!(u64::MAX),
        &[
            "x: Invalid value: 18446744073709551615: x in body should be less than or equal to 9223372036854775807",
        ],
    );
}

#[test]
fn texts() {
    let pattern = json!({"type": "string", "pattern": "^[a-z]+$"});
    check(pattern.clone(), json!("abc"), &[]);
    check(pattern, json!("A"), &[r#"x: Invalid value: "A": x in body should match '^[a-z]+$'"#]);
    let length = json!({"type": "string", "minLength": 2, "maxLength": 3});
    check(length.clone(), json!("äöü"), &[]);
    check(
        length.clone(),
        json!("a"),
        &[r#"x: Invalid value: "a": x in body should be at least 2 chars long"#],
    );
    check(length, json!("abcd"), &["x: Too long: may not be more than 3 bytes"]);
    check(
        json!({"type": "string", "enum": ["a", "b"]}),
        json!("c"),
        &[r#"x: Unsupported value: "c": supported values: "a", "b""#],
    );
    check(
        json!({"type": "integer", "enum": [1, 2]}),
        json!(3),
        &[r#"x: Unsupported value: 3: supported values: "1", "2""#],
    );
}

#[test]
fn objects() {
    let object = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}});
    check(object.clone(), json!({"a": ""}), &[]);
    check(object, json!({}), &["x.a: Required value"]);
    let map = json!({"type": "object", "additionalProperties": {"type": "integer"},
        "minProperties": 1, "maxProperties": 2});
    check(
        map.clone(),
        json!({}),
        &[r#"x: Invalid value: "object": x in body should have at least 1 properties"#],
    );
    check(map.clone(), json!({"a": 1, "b": 2, "c": 3}), &["x: Too many: 3: must have at most 2 items"]);
    check(
        map,
        json!({"a": ""}),
        &[r#"x[a]: Invalid value: "string": x[a] in body must be of type integer: "string""#],
    );
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true});
    check(embedded.clone(), json!({"apiVersion": "v1", "kind": "Pod"}), &[]);
    check(
        embedded,
        json!({"kind": ""}),
        &["x.apiVersion: Required value: must not be empty", "x.kind: Required value: must not be empty"],
    );
}

#[test]
fn lists() {
    let list = json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2, "uniqueItems": true});
    check(list.clone(), json!([1, 2]), &[]);
    check(list.clone(), json!([]), &[r#"x: Invalid value: "array": x in body should have at least 1 items"#]);
    check(list.clone(), json!([1, 2, 3]), &["x: Too many: 3: must have at most 2 items"]);
    check(list, json!([1, 1]), &[r#"x: Invalid value: "array": x in body shouldn't contain duplicates"#]);
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    check(set, json!(["a", "b", "a"]), &[r#"x[2]: Duplicate value: "a""#]);
    let atoms = json!({"type": "array", "x-kubernetes-list-type": "set",
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    check(
        atoms,
        json!([{"a": 1, "b": [2]}, {"b": [2], "a": 1}]),
        &[r#"x[1]: Duplicate value: {"b":[2],"a":1}"#],
    );
    let map = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "properties": {
            "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}}});
    check(
        map.clone(),
        json!([{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}, {"port": 2}]),
        &[],
    );
    check(
        map,
        json!([{"port": 1, "protocol": "TCP"}, {"port": 1}]),
        &[r#"x[1]: Duplicate value: {"port":1,"protocol":"TCP"}"#],
    );
}

#[test]
fn junctors() {
    let fields = json!({"a": {"type": "integer"}, "b": {"type": "integer"}});
    let with = |junctor: &str, branches: Value| {
        let mut schema = json!({"type": "object", "properties": fields});
        schema[junctor] = branches;
        schema
    };
    let either = json!([{"required": ["a"]}, {"required": ["b"]}]);
    check(with("anyOf", either.clone()), json!({"a": 1, "b": 1}), &[]);
    check(
        with("anyOf", either.clone()),
        json!({}),
        &[r#"x: Invalid value: "": "x" must validate at least one schema (anyOf)"#, "x.a: Required value"],
    );
    check(with("oneOf", either.clone()), json!({"a": 1}), &[]);
    check(
        with("oneOf", either.clone()),
        json!({"a": 1, "b": 1}),
        &[
            r#"x: Invalid value: "": "x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    );
    check(
        with("oneOf", either.clone()),
        json!({}),
        &[
            r#"x: Invalid value: "": "x" must validate one and only one schema (oneOf). Found none valid"#,
            "x.a: Required value",
        ],
    );
    check(with("allOf", either), json!({"a": 1}), &["x.b: Required value"]);
    let not = json!({"required": ["a"], "properties": {"a": {"minimum": 5}}});
    check(with("not", not.clone()), json!({"a": 4}), &[]);
    check(
        with("not", not),
        json!({"a": 5}),
        &[r#"x: Invalid value: "": "x" must not validate the schema (not)"#],
    );
}

#[test]
fn answers_are_bounded() {
    let schema = json!({"type": "array", "items": {"type": "string"}});
    let schema = Schema::compile(&schema, &mut |_| None).unwrap();
    let mut errors = FieldErrors::default();
    schema.validate(&Value::from(vec![json!(1); 5000]), &Path::root(), &mut errors);
    assert_eq!(errors.iter().len(), MAX_REPORTED);
}

proptest! {
    #[test]
    fn never_panics(value in any_json()) {
        let schema = Schema::compile(&sample_schema(), &mut |_| None).unwrap();
        schema.validate(&value, &Path::root(), &mut FieldErrors::default());
    }
}
