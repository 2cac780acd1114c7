use serde_json::json;

use super::*;

fn compiled(json: Value) -> Arc<Schema> {
    Schema::compile(&json, &mut |_| None).unwrap()
}

#[test]
fn types_and_extensions() {
    let check = |json: Value, expected: Schema| assert_eq!(*compiled(json.clone()), expected, "{json}");
    check(json!({}), Schema::default());
    check(json!(true), Schema { preserve_unknown: true, ..Schema::default() });
    check(
        json!({"type": "string", "format": "date-time", "nullable": true, "default": "x", "description": "d"}),
        Schema {
            ty: Type::String,
            format: Some("date-time".into()),
            nullable: true,
            default: Some(json!("x")),
            ..Schema::default()
        },
    );
    check(json!({"x-kubernetes-int-or-string": true}), Schema { ty: Type::IntOrString, ..Schema::default() });
    check(
        json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
        Schema { ty: Type::IntOrString, ..Schema::default() },
    );
    let string = Arc::new(Schema { ty: Type::String, ..Schema::default() });
    check(
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
               "x-kubernetes-patch-strategy": "merge"}),
        Schema {
            ty: Type::Array,
            items: Some(string.clone()),
            list: ListType::Set,
            merge: StrategicMerge { merge: true, ..StrategicMerge::default() },
            ..Schema::default()
        },
    );
    check(
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
               "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "a"}),
        Schema {
            ty: Type::Array,
            list: ListType::Map(vec!["a".into(), "b".into()]),
            merge: StrategicMerge {
                merge: true,
                retain_keys: true,
                key: Some("a".into()),
                ..StrategicMerge::default()
            },
            ..Schema::default()
        },
    );
    check(
        json!({"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"}),
        Schema { ty: Type::Object, values: Some(string), atomic: true, ..Schema::default() },
    );
}

#[test]
fn rules_are_kept_apart() {
    let schema = compiled(json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true, "enum": [2, 3]}));
    let expected = Rules {
        allowed: vec![json!(2), json!(3)],
        minimum: Some(Bound { limit: 1.into(), exclusive: true }),
        ..Rules::default()
    };
    assert_eq!(schema.rules.as_deref(), Some(&expected));
    assert_eq!(compiled(json!({"type": "integer"})).rules, None);
}

#[test]
fn references_are_shared() {
    let target = Arc::new(Schema { ty: Type::Object, ..Schema::default() });
    let mut resolve = |name: &str| (name == "a.b.C").then(|| target.clone());
    let mut compile = |json: Value| Schema::compile(&json, &mut resolve);
    for json in [
        json!({"$ref": "#/components/schemas/a.b.C"}),
        json!({"$ref": "#/definitions/a.b.C", "description": "other words"}),
        json!({"allOf": [{"$ref": "#/components/schemas/a.b.C"}], "description": "d"}),
    ] {
        assert!(Arc::ptr_eq(&compile(json.clone()).unwrap(), &target), "{json}");
    }
    let changed = compile(json!({"$ref": "a.b.C", "x-kubernetes-map-type": "atomic"})).unwrap();
    assert_eq!(*changed, Schema { atomic: true, ..Schema::clone(&target) });
    assert_eq!(compile(json!({"$ref": "x/D"})), Err(CompileError::UnknownReference("D".to_owned())));
}

#[test]
fn scalars_and_patterns_are_shared() {
    let schema = compiled(json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "string", "description": "d"},
        "c": {"type": "string", "pattern": "x"}, "d": {"type": "string", "pattern": "x", "maxLength": 3},
    }}));
    assert!(Arc::ptr_eq(&schema.fields["a"], &schema.fields["b"]));
    let pattern = |name: &str| schema.fields[name].rules.as_ref().unwrap().pattern.clone().unwrap();
    assert!(Arc::ptr_eq(&pattern("c"), &pattern("d")));
}

#[test]
fn nesting_is_bounded() {
    let mut json = json!({"type": "string"});
    for _ in 0..150 {
        json = json!({"type": "array", "items": json});
    }
    assert_eq!(Schema::compile(&json, &mut |_| None), Err(CompileError::TooDeep));
}

proptest::proptest! {
    #[test]
    fn never_panics(json in crate::testing::any_json()) {
        let _ = Schema::compile(&json, &mut |_| None);
        let _ = Schema::compile(&json!({"type": "object", "properties": {"a": json}}), &mut |_| None);
    }
}
