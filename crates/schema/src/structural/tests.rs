use serde_json::{Value, json};

use super::*;

fn errors_of(schema: &Value) -> Vec<String> {
    let mut errors = FieldErrors::default();
    structural_errors(schema, &Path::new("s"), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn with_field(field: Value) -> Value {
    json!({"type": "object", "properties": {"x": field}})
}

#[test]
fn structural_schemas_pass() {
    let fine = [
        crate::testing::sample_schema(),
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object", "properties": {"metadata": {"type": "object",
            "properties": {"name": {"type": "string", "maxLength": 5}}}}}),
        with_field(json!({"x-kubernetes-int-or-string": true,
            "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%?$"})),
        with_field(json!({"x-kubernetes-int-or-string": true,
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minimum": 1}]})),
        with_field(json!({"x-kubernetes-preserve-unknown-fields": true})),
        with_field(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}})),
    ];
    for schema in fine {
        assert_eq!(errors_of(&schema), Vec::<String>::new(), "{schema}");
    }
}

#[test]
fn what_is_not_structural_is_named() {
    let check = |schema: Value, expected: &[&str]| assert_eq!(errors_of(&schema), expected, "{schema}");
    check(json!({}), &["s.type: Required value: must not be empty at the root"]);
    check(json!({"type": "string"}), &[r#"s.type: Invalid value: "string": must be object at the root"#]);
    check(json!([]), &["s: Invalid value: []: must be an object"]);
    check(
        with_field(json!({})),
        &["s.properties[x].type: Required value: must not be empty for specified object fields"],
    );
    check(
        with_field(json!({"type": "array"})),
        &["s.properties[x].items: Required value: must be specified"],
    );
    check(
        with_field(json!({"type": "array", "items": {}})),
        &["s.properties[x].items.type: Required value: must not be empty for specified array items"],
    );
    check(
        with_field(json!({"type": "float"})),
        &[
            r#"s.properties[x].type: Unsupported value: "float": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ],
    );
    check(
        with_field(json!({"type": "object", "additionalProperties": false})),
        &["s.properties[x].additionalProperties: Forbidden: additionalProperties cannot be set to false"],
    );
    check(
        with_field(json!({"type": "object", "$ref": "#/x"})),
        &["s.properties[x].$ref: Forbidden: $ref is not supported"],
    );
    check(
        with_field(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false})),
        &[
            "s.properties[x].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ],
    );
    check(
        with_field(json!({"type": "string", "anyOf": [{"type": "string"}]})),
        &["s.properties[x].anyOf[0].type: Forbidden: must be empty to be structural"],
    );
    check(
        with_field(json!({"type": "object", "not": {"properties": {"a": {"enum": ["b"]}}}})),
        &[
            "s.properties[x].properties[a]: Required value: because it is defined in s.properties[x].not.properties[a]",
        ],
    );
    check(
        with_field(json!({"type": "object", "x-kubernetes-embedded-resource": true})),
        &[
            "s.properties[x].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true \
         without x-kubernetes-preserve-unknown-fields",
        ],
    );
    check(
        json!({"type": "object", "properties": {"metadata": {"type": "object",
        "properties": {"labels": {"type": "object"}}}}}),
        &["s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, \
         but metadata is implicitly specified"],
    );
    check(
        with_field(json!({"type": "string", "default": 1})),
        &[
            r#"s.properties[x].default: Invalid value: "integer": s.properties[x].default in body must be of type string: "integer""#,
        ],
    );
    check(
        with_field(json!({"type": "object", "default": {"a": 1}})),
        &[r#"s.properties[x].default: Invalid value: {"a":1}: must not have unknown fields: a"#],
    );
}

#[test]
fn a_pattern_must_compile() {
    let errors = errors_of(&with_field(json!({"type": "string", "pattern": "("})));
    let expected =
        r#"s.properties[x].pattern: Invalid value: "(": must be a valid regular expression, but isn't: "#;
    assert!(errors[0].starts_with(expected), "{errors:?}");
}

#[test]
fn list_types() {
    let list = |extra: Value| {
        let mut field = json!({"type": "array", "items": {"type": "object",
            "properties": {"name": {"type": "string"}, "in": {"type": "object"}}}});
        for (key, value) in extra.as_object().unwrap() {
            field[key] = value.clone();
        }
        with_field(field)
    };
    let check = |extra: Value, expected: &str| {
        let errors = errors_of(&list(extra.clone()));
        assert_eq!(errors, [expected], "{extra}");
    };
    check(
        json!({"x-kubernetes-list-type": "map"}),
        "s.properties[x].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
    );
    check(
        json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
        "s.properties[x].items.properties[name].default: Required value: this property is in \
         x-kubernetes-list-map-keys, so it must have a default or be a required property",
    );
    check(
        json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["nome"]}),
        "s.properties[x].x-kubernetes-list-map-keys[0]: Invalid value: \"nome\": entries must all be names of item properties",
    );
    check(
        json!({"x-kubernetes-list-type": "set"}),
        "s.properties[x].items.x-kubernetes-map-type: Invalid value: \"\": must be atomic as item of a list with x-kubernetes-list-type=set",
    );
    check(
        json!({"x-kubernetes-list-type": "bag"}),
        "s.properties[x].x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"map\", \"set\"",
    );
    assert_eq!(
        errors_of(&with_field(json!({"type": "object", "x-kubernetes-list-type": "set"}))),
        [
            r#"s.properties[x].type: Invalid value: "object": must be array if x-kubernetes-list-type is specified"#
        ],
    );
}

#[test]
fn nesting_is_bounded() {
    let mut schema = json!({"type": "string"});
    for _ in 0..250 {
        schema = with_field(schema);
    }
    assert_eq!(errors_of(&schema), ["s: Forbidden: must not be nested deeper than 100 levels"]);
}

proptest::proptest! {
    #[test]
    fn never_panics(schema in crate::testing::any_json()) {
        errors_of(&schema);
        errors_of(&with_field(schema));
    }
}
