use minik8s_cel::rules::{self, Rules};
use minik8s_schema::{FieldErrors, Path};
use serde_json::{Value as Json, json};

fn errors(schema: &Json, object: &Json, old: Option<&Json>) -> Vec<String> {
    Rules::compile(schema).validate(object, old).errors.iter().map(ToString::to_string).collect()
}

fn warnings(schema: &Json, object: &Json, old: Option<&Json>) -> Vec<String> {
    Rules::compile(schema).validate(object, old).warnings.iter().map(ToString::to_string).collect()
}

/// What a definition with this schema is refused for.
fn refusals(schema: &Json) -> Vec<String> {
    let mut errors = FieldErrors::default();
    rules::check(schema, &Path::new("schema"), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn spec(properties: &Json, validations: &Json) -> Json {
    let spec = json!({"type": "object", "properties": properties, "x-kubernetes-validations": validations});
    json!({"type": "object", "properties": {"spec": spec}})
}

#[test]
fn a_rule_that_does_not_hold_is_an_error_at_its_place() {
    let properties = json!({"replicas": {"type": "integer"}, "most": {"type": "integer"}});
    let schema = spec(&properties, &json!([{"rule": "self.replicas <= self.most"}]));
    assert!(errors(&schema, &json!({"spec": {"replicas": 1, "most": 2}}), None).is_empty());
    let broken = json!({"spec": {"replicas": 3, "most": 2}});
    let expected = ["spec: Invalid value: failed rule: self.replicas <= self.most"];
    assert_eq!(errors(&schema, &broken, None), expected);
    let absent = json!({"spec": {"replicas": 3}});
    let expected =
        ["spec: Invalid value: \"object\": no such key: most evaluating rule: self.replicas <= self.most"];
    assert_eq!(errors(&schema, &absent, None), expected);
    assert!(errors(&schema, &json!({}), None).is_empty(), "nothing is there to be wrong");
}

#[test]
fn messages_reasons_and_paths_are_the_rules_own() {
    let properties = json!({"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 9}, "m": {"type": "object", "additionalProperties": {"type": "string"}}});
    let object = json!({"spec": {"a": 5, "b": "x"}});
    for (rule, expected) in [
        (json!({"message": "a is wrong"}), "spec: Invalid value: a is wrong"),
        (json!({"message": "m", "reason": "FieldValueForbidden"}), "spec: Forbidden: m"),
        (
            json!({"message": "m", "reason": "FieldValueRequired", "fieldPath": ".a"}),
            "spec.a: Required value: m",
        ),
        (json!({"message": "m", "fieldPath": ".m['x']"}), "spec.m[x]: Invalid value: m"),
        (json!({"messageExpression": "'b is ' + self.b"}), "spec: Invalid value: b is x"),
        (json!({"message": "m", "messageExpression": "self.m['none']"}), "spec: Invalid value: m"),
        (json!({"message": "m", "messageExpression": "' '"}), "spec: Invalid value: m"),
    ] {
        let mut rule = rule;
        rule["rule"] = json!("self.a < 5");
        let schema = spec(&properties, &json!([rule]));
        assert_eq!(refusals(&schema), [""; 0], "{rule}");
        assert_eq!(errors(&schema, &object, None), [expected], "{rule}");
    }
    let scalar = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5", "message": "small"}]}}}}});
    assert_eq!(errors(&scalar, &object, None), ["spec.a: Invalid value: 5: small"]);
}

#[test]
fn rules_reach_items_values_and_all_of() {
    let positive = json!([{"rule": "self > 0", "message": "positive"}]);
    let schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": positive}},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": positive}},
        "both": {"type": "integer", "allOf": [{"x-kubernetes-validations": positive}]},
    }, "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('a')"}]});
    let object = json!({"metadata": {"name": "a"}, "list": [1, 0], "map": {"k": -1, "l": 1}, "both": 0});
    let found = errors(&schema, &object, None);
    let expected = [
        "list[1]: Invalid value: 0: positive",
        "map[k]: Invalid value: -1: positive",
        "both: Invalid value: 0: positive",
    ];
    assert_eq!(found, expected);
}

#[test]
fn transition_rules_run_where_there_is_an_old_value() {
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "may not shrink"}]}});
    let schema = spec(
        &json!({"disks": keyed, "kind": {"type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]}}),
        &json!([]),
    );
    let old = json!({"spec": {"kind": "x", "disks": [{"name": "a", "size": 1}, {"name": "b", "size": 5}]}});
    assert!(errors(&schema, &old, None).is_empty());
    assert!(errors(&schema, &old, Some(&old)).is_empty());
    let new = json!({"spec": {"kind": "y", "disks": [{"name": "b", "size": 4}, {"name": "c", "size": 1}]}});
    let expected =
        ["spec.disks[0]: Invalid value: may not shrink", "spec.kind: Invalid value: \"y\": immutable"];
    assert_eq!(errors(&schema, &new, Some(&old)), expected);
    let added = json!({"spec": {"kind": "z"}});
    assert!(errors(&schema, &added, Some(&json!({"spec": {}}))).is_empty(), "there was no old value");
}

#[test]
fn optional_old_self_runs_on_creation_too() {
    let rule = json!({"rule": "oldSelf.hasValue() || self == 'new'", "optionalOldSelf": true});
    let schema = json!({"type": "object", "properties": {"state": {"type": "string", "x-kubernetes-validations": [rule]}}});
    assert_eq!(refusals(&schema), [""; 0]);
    assert!(errors(&schema, &json!({"state": "new"}), None).is_empty());
    assert_eq!(errors(&schema, &json!({"state": "old"}), None).len(), 1);
    assert!(errors(&schema, &json!({"state": "old"}), Some(&json!({"state": "new"}))).is_empty());
}

#[test]
fn what_has_not_changed_is_only_warned_about() {
    let schema = spec(
        &json!({"a": {"type": "integer"}, "b": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self > 0", "message": "positive"}]}}),
        &json!([]),
    );
    let old = json!({"spec": {"a": 1, "b": -1}});
    let new = json!({"spec": {"a": 2, "b": -1}});
    assert!(errors(&schema, &new, Some(&old)).is_empty());
    assert_eq!(warnings(&schema, &new, Some(&old)), ["spec.b: Invalid value: -1: positive"]);
    let worse = json!({"spec": {"a": 1, "b": -2}});
    assert_eq!(errors(&schema, &worse, Some(&old)), ["spec.b: Invalid value: -2: positive"]);
}

#[test]
fn an_object_can_cost_only_so_much() {
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.l.all(x, self.l.all(y, x <= y || y <= x))"}]});
    let object = json!({"l": vec![1; 2000]});
    let found = errors(&schema, &object, None);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("operation cancelled: actual cost limit exceeded"), "{found:?}");
    let many: Vec<Json> =
        (0..20).map(|_| json!({"rule": "self.l.all(x, self.l.exists(y, x < y) || true)"})).collect();
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": many});
    let found = errors(&schema, &json!({"l": vec![1; 350]}), None);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("validation failed due to running out of cost budget"), "{found:?}");
}

#[test]
fn definitions_with_wrong_rules_are_refused() {
    let properties = json!({"a": {"type": "integer"}});
    let at = "schema.properties[spec].x-kubernetes-validations[0]";
    for (rule, expected) in [
        (
            json!({"rule": "self.b == 1"}),
            "rule: Invalid value: {\"rule\":\"self.b == 1\"}: compilation failed: ERROR: \
            <input>:1:5: undefined field 'b'\n | self.b == 1\n | ....^",
        ),
        (
            json!({"rule": "self.a"}),
            "rule: Invalid value: {\"rule\":\"self.a\"}: cel expression must evaluate to a bool",
        ),
        (json!({"rule": " "}), "rule: Required value: rule is not specified"),
        (
            json!({"rule": "true", "message": "a\nb"}),
            "message: Invalid value: \"a\\nb\": must not contain line breaks",
        ),
        (json!({"rule": "true\n"}), ""),
        (
            json!({"rule": "true ||\n false"}),
            "message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "true", "reason": "Other"}),
            "reason: Unsupported value: \"Other\": supported values: \
            \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (
            json!({"rule": "true", "fieldPath": ".b"}),
            "fieldPath: Invalid value: \".b\": must be a valid path",
        ),
        (
            json!({"rule": "true", "optionalOldSelf": true}),
            "optionalOldSelf: Invalid value: true: may not be set if oldSelf \
            is not used in rule",
        ),
        (
            json!({"rule": "true", "messageExpression": "1"}),
            "messageExpression: Invalid value: \
            {\"messageExpression\":\"1\",\"rule\":\"true\"}: messageExpression must evaluate to a string",
        ),
    ] {
        let expected: Vec<String> =
            (!expected.is_empty()).then(|| format!("{at}.{expected}")).into_iter().collect();
        let mut found = refusals(&spec(&properties, &json!([rule])));
        // The order of the rule's own fields is the writer's.
        for text in &mut found {
            *text = text.replace(
                "{\"rule\":\"true\",\"messageExpression\":\"1\"}",
                "{\"messageExpression\":\"1\",\"rule\":\"true\"}",
            );
        }
        assert_eq!(found, expected, "{rule}");
    }
}

#[test]
fn old_self_needs_elements_that_can_be_told_apart() {
    let schema = spec(
        &json!({"l": {"type": "array", "maxItems": 5, "items": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}),
        &json!([]),
    );
    let expected = "schema.properties[spec].properties[l].items.x-kubernetes-validations[0].rule: Invalid value: \
        \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within \
        schema.properties[spec].properties[l]";
    assert_eq!(refusals(&schema), [expected]);
}

#[test]
fn rules_that_could_become_too_expensive_are_refused_with_a_factor() {
    let list = |most: Option<u64>| {
        let mut list = json!({"type": "array", "items": {"type": "string"}});
        if let Some(most) = most {
            list["maxItems"] = json!(most);
            list["items"]["maxLength"] = json!(10);
        }
        spec(&json!({"l": list}), &json!([{"rule": "self.l.all(x, self.l.all(y, x == y))"}]))
    };
    let found = refusals(&list(None));
    let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
        strings are declared)";
    let rule = "schema.properties[spec].x-kubernetes-validations[0].rule";
    assert_eq!(
        found[0],
        format!("{rule}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {advice}")
    );
    assert!(
        found
            .iter()
            .any(|text| text.starts_with(&format!("{rule}: Forbidden: contributed to estimated rule cost")))
    );
    assert!(found.iter().any(|text| {
        text.starts_with("schema: Forbidden: x-kubernetes-validations estimated rule cost total")
    }));
    assert_eq!(refusals(&list(Some(100))), [""; 0]);
}
