use std::sync::Arc;

use minik8s_cel::{
    Authorizer, Bindings, Budget, Check, Decision, Environment, Program, Question, Type, Value,
};

struct OnlyPods;

impl Authorizer for OnlyPods {
    fn decide(&self, question: &Question) -> Decision {
        let allowed = question.resource == "pods" && question.namespace == "a" && question.verb == "get";
        Decision { allowed, reason: format!("asked for {}", question.resource), error: None }
    }
}

fn ask(text: &str) -> (bool, u64) {
    let authorizer = Type::Opaque("kubernetes.authorization.Authorizer");
    let environment = Environment::new().with_type("authorizer", authorizer);
    let program = Program::compile(&environment, text).unwrap_or_else(|errors| panic!("{errors}"));
    let bindings = Bindings::new().with("authorizer", Value::Check(Arc::new(Check::new(&OnlyPods))));
    let mut budget = Budget::default();
    match program.evaluate(&bindings, &mut budget).unwrap() {
        Value::Bool(value) => (value, budget.spent()),
        other => panic!("{other}"),
    }
}

#[test]
fn the_host_decides_and_a_check_is_expensive() {
    let question = "authorizer.group('').resource('pods').namespace('a').check('get').allowed()";
    assert_eq!(ask(question), (true, 350_005));
    assert!(!ask("authorizer.group('').resource('secrets').namespace('a').check('get').allowed()").0);
    assert!(ask("authorizer.group('').resource('x').check('get').reason() == 'asked for x'").0);
    assert!(ask("!authorizer.path('/healthz').check('get').allowed()").0);
    assert!(
        ask("!authorizer.serviceAccount('ns', 'sa').group('').resource('pods').check('get').errored()").0
    );
}
