use minik8s_cel::admission::{self, Conditions};
use minik8s_cel::{Bindings, Value};
use serde_json::json;

#[test]
fn conditions_hold_together_and_one_that_does_not_decides() {
    let request = json!({"operation": "CREATE", "namespace": "n", "userInfo": {"username": "ann", "groups": ["g"]}, "options": {"a": 1}});
    let object = json!({"metadata": {"name": "x"}});
    let hold = |expressions: &[&str]| {
        let conditions = Conditions::compile(&admission::environment(), expressions.iter().copied());
        let bindings = Bindings::new()
            .with("request", Value::of_json(&request, admission::request()))
            .with("object", Value::of_json(&object, None))
            .with("oldObject", Value::Null);
        conditions.hold(&bindings)
    };
    assert_eq!(hold(&[]), Ok(true));
    assert_eq!(
        hold(&["request.operation == 'CREATE'", "object.metadata.name == 'x'", "oldObject == null"]),
        Ok(true)
    );
    assert_eq!(
        hold(&[
            "request.userInfo.groups.exists(g, g == 'g')",
            "request.options.a == 1",
            "request.namespace == 'n'"
        ]),
        Ok(true)
    );
    assert_eq!(hold(&["object.missing == 1", "request.userInfo.username == 'bob'"]), Ok(false));
    assert_eq!(
        hold(&["object.missing == 1"]),
        Err("expression 'object.missing == 1' resulted in error: no such key: missing".to_owned())
    );
}

#[test]
fn wrong_conditions_say_what_is_wrong() {
    let wrong = |expression: &str| admission::condition(&admission::environment(), expression).unwrap_err();
    assert!(
        wrong("request.verb == 'x'")
            .starts_with("compilation failed: ERROR: <input>:1:8: undefined field 'verb'")
    );
    assert_eq!(wrong("request.name"), "must evaluate to bool but got string");
    assert!(
        admission::condition(&admission::environment(), "authorizer.requestResource.check('x').allowed()")
            .is_ok()
    );
}
