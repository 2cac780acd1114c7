use minik8s_cel::policy::{Account, Expected, OutOfBudget, Scope, Variables, check_names};
use minik8s_cel::{Bindings, Value};
use serde_json::json;

#[test]
fn expression_must_evaluate_to_what_its_place_wants() {
    let scope = Scope { params: false, authorizer: true, mutation: true };
    let check = |expected: Expected, expression: &str, why: &str| match expected
        .compile(&scope.environment(), expression)
    {
        Ok(_) => assert_eq!(why, "", "{expression}"),
        Err(found) => assert!(!why.is_empty() && found.contains(why), "{expression}: {found}"),
    };
    check(Expected::Bool, "object.a > 1", "");
    check(Expected::Bool, "object.a", "must evaluate to bool but got dyn");
    check(Expected::String, "string(object.a)", "");
    check(Expected::StringOrNull, "null", "");
    check(Expected::StringOrNull, "1", "must evaluate to one of [string null_type] but got int");
    check(Expected::ApplyConfiguration, "Object{spec: Object.spec{replicas: 1}}", "");
    check(Expected::ApplyConfiguration, "Object.spec{}", "must evaluate to Object but got Object.spec");
    check(Expected::JsonPatch, "[JSONPatch{op: 'remove', path: '/a'}]", "");
    check(Expected::JsonPatch, "[1]", "must evaluate to list(JSONPatch) but got list(int)");
    check(Expected::Bool, "params.x == 1", "undeclared reference to 'params'");
    check(Expected::Bool, "namespaceObject.metadata.namespace == ''", "");
    check(Expected::Bool, "namespaceObject.metadata.nope == ''", "undefined field 'nope'");
    check(Expected::Bool, "namespaceObject == null", "");
    check(Expected::Bool, "authorizer.requestResource.check('get').allowed()", "");
    let message = Scope { params: true, ..Scope::default() }.environment();
    assert!(Expected::String.compile(&message, "string(params.x)").is_ok());
    assert!(Expected::Bool.compile(&message, "authorizer.path('/').check('get').allowed()").is_err());
}

#[test]
fn variables_see_those_before_them() {
    let scope = Scope::default().environment();
    let mut variables = Variables::default();
    variables.add(&scope, "replicas", "object.spec.replicas").unwrap();
    variables.add(&scope, "odd", "variables.replicas % 2 == 1").unwrap();
    let later = variables.add(&scope, "early", "variables.late").unwrap_err();
    assert!(later.contains("undefined field 'late'"), "{later}");
    let program = Expected::Bool.compile(&variables.declare(scope.clone()), "variables.odd").unwrap();
    let broken = Expected::Bool.compile(&variables.declare(scope), "variables.early == 1").unwrap();
    let object = json!({"spec": {"replicas": 3}});
    let bindings = variables.bind(Bindings::new().with("object", Value::of_json(&object, None)));
    let mut account = Account::default();
    assert!(matches!(account.run(&program, &bindings), Ok(Ok(Value::Bool(true)))));
    let is_there = |name: &str| {
        let expression = format!("has(variables.{name}) && object.spec.replicas == 3");
        Expected::Bool.compile(&variables.declare(Scope::default().environment()), &expression)
    };
    // Also one that has no value, as in upstream: what is declared is there.
    for name in ["odd", "early"] {
        let program = is_there(name).unwrap();
        assert!(matches!(account.run(&program, &bindings), Ok(Ok(Value::Bool(true)))), "{name}");
    }
    assert!(is_there("late").unwrap_err().contains("undefined field 'late'"));
    let why = account.run(&broken, &bindings).unwrap().unwrap_err().to_string();
    assert!(why.contains("fails to compile"), "{why}");
}

/// Every expression is below its own limit; all together are not.
#[test]
fn policy_that_costs_too_much_runs_out_of_budget() {
    let scope = Scope::default().environment();
    let list: Vec<i64> = (0..400).collect();
    let object = json!(list);
    let expression = "object.all(a, object.all(b, a >= 0))";
    let program = Expected::Bool.compile(&scope, expression).unwrap();
    let bindings = Bindings::new().with("object", Value::of_json(&object, None));
    let mut account = Account::default();
    let runs = (0..100).take_while(|_| account.run(&program, &bindings).is_ok()).count();
    assert!((2..100).contains(&runs), "{runs}");
    assert_eq!(account.run(&program, &bindings).unwrap_err(), OutOfBudget);
}

#[test]
fn objects_are_named_after_their_place() {
    let scope = Scope { mutation: true, ..Scope::default() }.environment();
    let check = |expression: &str, expected: Result<(), &str>| {
        let program = Expected::ApplyConfiguration.compile(&scope, expression).unwrap();
        let value = Account::default().run(&program, &Bindings::new()).unwrap().unwrap();
        assert_eq!(
            check_names(&value, "Object").map_err(|why| why.contains("unexpected type name")),
            expected.map_err(|_| true)
        );
    };
    check("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'a'}]}}", Ok(()));
    check("Object{metadata: Object.metadata{labels: {'a': 'b'}}}", Ok(()));
    check("Object{spec: Object.spec{containers: [Object.spec.wrong{name: 'a'}]}}", Err("Object.spec.wrong"));
}
