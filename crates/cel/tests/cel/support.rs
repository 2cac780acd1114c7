//! Helpers that evaluate one expression.

use minik8s_cel::{Bindings, Budget, Environment, EvalError, Program};
use serde_json::Value as Json;

/// The result as JSON and the cost, without variables.
pub fn run(text: &str) -> Result<(Json, u64), EvalError> {
    let program =
        Program::compile(&Environment::new(), text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
    let mut budget = Budget::default();
    let value = program.evaluate(&Bindings::new(), &mut budget)?;
    let shown = value.to_json().unwrap_or_else(|| Json::from(value.to_string()));
    Ok((shown, budget.spent()))
}

/// Every line: an expression that must be true.
pub fn all_true(expressions: &[&str]) {
    for text in expressions {
        match run(text) {
            Ok((Json::Bool(true), _)) => {}
            other => panic!("{text}: {other:?}"),
        }
    }
}

/// Every pair: an expression and the error it ends with.
pub fn all_fail(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        match run(text) {
            Err(error) => assert_eq!(error.to_string(), *expected, "{text}"),
            Ok(found) => panic!("{text}: {found:?}"),
        }
    }
}

/// What is wrong with the text, as it is shown.
pub fn faults(environment: &Environment, text: &str) -> String {
    match Program::compile(environment, text) {
        Err(errors) => errors.to_string(),
        Ok(program) => panic!("{text} is valid: {}", program.result_type()),
    }
}
