use minik8s_cel::{Bindings, Budget, Declaration, Environment, EvalError, Program, Type, Value};
use serde_json::{Value as Json, json};

fn schema() -> Json {
    json!({"type": "object", "properties": {
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "ttl": {"type": "string", "format": "duration"},
        "data": {"type": "string", "format": "byte"},
        "ratio": {"type": "number"},
        "port": {"x-kubernetes-int-or-string": true},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true},
    }})
}

fn holds(object: &Json, text: &str) -> Result<bool, EvalError> {
    let declaration = Declaration::of_schema(&schema(), "selfType", true).unwrap();
    let environment = Environment::new().with("self", declaration.clone());
    let program = Program::compile(&environment, text).unwrap_or_else(|errors| panic!("{errors}"));
    let bindings = Bindings::new().with("self", Value::of_json(object, Some(&declaration)));
    match program.evaluate(&bindings, &mut Budget::default()) {
        Ok(Value::Bool(value)) => Ok(value),
        Ok(other) => panic!("{text}: {other}"),
        Err(error) => Err(error),
    }
}

#[test]
fn fields_have_the_types_of_their_formats() {
    let object = json!({
        "apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"},
        "when": "2024-01-01T00:00:00Z", "day": "2024-01-02", "ttl": "1h", "data": "aGk=", "ratio": 1,
        "port": "http", "namespace": "n", "labels": {"a": "b"}, "set": ["x", "y"],
        "keyed": [{"name": "a", "value": 1}, {"name": "b", "value": 2}],
        "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "inner"}},
    });
    for text in [
        "self.when < self.day && self.when.getFullYear() == 2024",
        "self.ttl == duration('60m')",
        "self.data == b'hi'",
        "self.ratio < 1.5 && self.ratio == 1.0",
        "type(self.port) == string && self.port == 'http'",
        "self.__namespace__ == 'n'",
        "self.labels['a'] == 'b' && self.labels.a == 'b' && 'a' in self.labels && self.labels.all(k, k == 'a')",
        "self.kind == 'Thing' && self.metadata.name == 'x' && !has(self.metadata.generateName)",
        "self.embedded.metadata.name == 'inner'",
        "self.set == ['y', 'x'] && self.set + ['x', 'z'] == ['x', 'y', 'z']",
        "self.keyed.exists(k, k.name == 'b' && k.value == 2) && self.keyed[0].value == 1",
        "self.keyed + self.keyed == self.keyed",
    ] {
        assert_eq!(holds(&object, text), Ok(true), "{text}");
    }
    assert_eq!(holds(&json!({"port": 80}), "self.port == 80 && !has(self.ttl)"), Ok(true));
    assert_eq!(holds(&json!({}), "self.ttl == duration('1s')"), Err(EvalError::NoSuchKey("ttl".into())));
}

#[test]
fn variables_are_computed_when_they_are_read_and_once() {
    let environment = Environment::new().with_type("object", Type::Dyn);
    let doubled = Program::compile(&environment, "object.n * 2").unwrap();
    let broken = Program::compile(&environment, "object.missing").unwrap();
    let environment = environment
        .with_type("variables.doubled", doubled.result_type().clone())
        .with_type("variables.broken", broken.result_type().clone());
    let object = json!({"n": 4});
    let run = |text: &str| {
        let program = Program::compile(&environment, text).unwrap();
        let bindings = Bindings::new()
            .with("object", Value::of_json(&object, None))
            .with_program("variables.doubled", &doubled)
            .with_program("variables.broken", &broken);
        let mut budget = Budget::default();
        let found = program.evaluate(&bindings, &mut budget).map(|value| value.to_json().unwrap());
        (found, budget.spent())
    };
    assert_eq!(run("variables.doubled").0, Ok(json!(8)));
    let (once, twice) = (run("variables.doubled").1, run("variables.doubled + variables.doubled").1);
    assert_eq!(twice, once + 2, "the second read costs a unit, the sum another");
    assert_eq!(run("variables.broken == 1").0, Err(EvalError::NoSuchKey("missing".into())));
    assert_eq!(run("true || variables.broken == 1").0, Ok(json!(true)));
}

#[test]
fn policies_make_objects_and_patches() {
    let environment = Environment::new().with_mutation();
    let run = |text: &str| {
        let program = Program::compile(&environment, text).unwrap_or_else(|errors| panic!("{errors}"));
        program.evaluate(&Bindings::new(), &mut Budget::default()).map(|value| value.to_json().unwrap())
    };
    assert_eq!(
        run("Object{metadata: Object.metadata{labels: {'a': 'b'}}, spec: Object.spec{replicas: 3}}"),
        Ok(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 3}}))
    );
    assert_eq!(
        run("[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'x'}]"),
        Ok(json!([{"op": "add", "path": "/metadata/labels/a~1b", "value": "x"}]))
    );
    assert!(run("Object{spec: Object.status{}}").is_err());
    let wrong = Program::compile(&environment, "JSONPatch{op: 1}").unwrap_err().to_string();
    assert!(wrong.contains("expected type of field 'op' is 'string' but provided type is 'int'"), "{wrong}");
}
