//! What is said about definitions and runs that are wrong, as measured on AWS where the recorded cases do not tell.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use minik8s_asl::definition::{Definition, MachineType};
use minik8s_asl::engine::{Execution, Identity, Start, Status};
use serde_json::{Value, json};

/// Code, words and place of the one mistake in a state `s` of a machine in JSONata.
fn check_refused(language: &str, state: Value, expected: (&str, &str, &str)) {
    let machine =
        json!({"QueryLanguage": language, "StartAt": "s", "States": {"s": state, "e": {"Type": "Succeed"}}});
    let diagnostics = Definition::from_value(&machine, MachineType::Standard).unwrap_err();
    let found: Vec<(&str, &str, &str)> = diagnostics
        .0
        .iter()
        .filter(|one| one.code != "MISSING_TRANSITION_TARGET")
        .map(|one| (&*one.code, &*one.message, &*one.location))
        .collect();
    assert_eq!(found, [expected], "{machine}");
}

#[test]
fn jsonata_that_cannot_be_read_is_refused_in_its_own_words() {
    for (expression, words) in [
        ("$states.input[1,2)", "Expected \"]\", got \",\""),
        ("\"unterminated", "String literal must be terminated by a matching quote"),
        ("1 +", "Unexpected end of expression"),
        ("{\"a\":}", "The symbol \"}\" cannot be used as a unary operator"),
        ("$x :=", "Unexpected end of expression"),
        ("$match(\"a\", /abc", "No terminating / in regular expression"),
        ("", "Unexpected end of expression"),
        ("$sum([1, 2", "Expected \"]\" before end of expression"),
    ] {
        let state = json!({"Type": "Pass", "Output": {"v": format!("{{% {expression} %}}")}, "Next": "e"});
        check_refused("JSONata", state, ("INVALID_JSONATA_EXPRESSION", words, "/States/s/Output/v"));
    }
}

#[test]
fn jsonata_reads_no_input_but_by_states() {
    let refused = |expression: &str, words: &str| {
        let state = json!({"Type": "Pass", "Output": format!("{{% {expression} %}}"), "Next": "e"});
        check_refused("JSONata", state, ("UNSUPPORTED_JSONATA_EXPRESSION", words, "/States/s/Output"));
    };
    refused("phone", "Reference to 'phone' at the top level is not supported.");
    refused("$$", "Reference to '$$' is not supported.");
    refused("$states.errorOutput", "Field '$states.errorOutput' does not exist.");
    let caught = json!({"Type": "Task", "Resource": "function:f", "Next": "e", "Catch": [
        {"ErrorEquals": ["States.ALL"], "Next": "e", "Output": "{% $states.errorOutput %}",
         "Assign": {"e": "{% $states.errorOutput.Error %}"}}]});
    let machine = json!({"QueryLanguage": "JSONata", "StartAt": "s", "States": {"s": caught, "e": {"Type": "Succeed"}}});
    Definition::from_value(&machine, MachineType::Standard).unwrap();
}

#[test]
fn fields_of_the_other_language_and_unknown_ones_are_refused_at_their_state() {
    let pass = |field: &str, value: Value| json!({"Type": "Pass", "Next": "e", field: value});
    let other = |here: &str, field: &str, there: &str| {
        format!(
            "The QueryLanguage is set to '{here}', but field '{field}' is only supported for the '{there}' QueryLanguage"
        )
    };
    let schema = "SCHEMA_VALIDATION_FAILED";
    let words = other("JSONPath", "Output", "JSONata");
    check_refused("JSONPath", pass("Output", json!(1)), (schema, &words, "/States/s"));
    let words = other("JSONata", "InputPath", "JSONPath");
    check_refused("JSONata", pass("InputPath", json!("$")), (schema, &words, "/States/s"));
    let words = "Field 'Retry' is not supported";
    check_refused("JSONPath", pass("Retry", json!([])), (schema, words, "/States/s"));
    let words = "Value should be one of the following: [JSONPath, JSONata]";
    check_refused("JSONPath", pass("QueryLanguage", json!("jq")), (schema, words, "/States/s/QueryLanguage"));
}

#[test]
fn intrinsic_strings_escape_quotes_braces_and_backslashes_only() {
    let value = |call: &str| {
        let state = json!({"Type": "Pass", "Parameters": {"v.$": call}, "End": true});
        let machine = json!({"StartAt": "s", "States": {"s": state}});
        let definition = Definition::from_value(&machine, MachineType::Standard).ok()?;
        let start = Start {
            identity: Identity::default(),
            input: json!({"a": "x"}),
            time: 1_700_000_000_000,
            seed: 1,
        };
        match Execution::start(Arc::new(definition), start).0.state.status {
            Status::Succeeded { output } => Some(output["v"].clone()),
            other => panic!("{call}: {other:?}"),
        }
    };
    assert_eq!(value(r"States.Format('it\'s \{{}\} \\', $.a)"), Some(json!(r"it's {x} \")));
    assert_eq!(value(r#"States.StringToJson('\{"a":1\}')"#), Some(json!({"a": 1})));
    assert_eq!(value(r"States.Array('\\', '\'')"), Some(json!([r"\", "'"])));
    assert_eq!(value(r"States.Array('\n')"), None);
    assert_eq!(value(r#"States.StringToJson('{"text":"An \"escaped\" quote"}')"#), None);
}

fn failed(state: Value, input: Value) -> (String, String) {
    let machine = json!({"StartAt": "s", "States": {"s": state, "e": {"Type": "Succeed"}}});
    let definition = Definition::from_value(&machine, MachineType::Standard).unwrap();
    let start = Start { identity: Identity::default(), input, time: 1_700_000_000_000, seed: 1 };
    let (execution, _) = Execution::start(Arc::new(definition), start);
    let Status::Failed { error, cause } = execution.state.status else {
        panic!("{:?}", execution.state.status)
    };
    (error.unwrap(), cause.unwrap())
}

#[test]
fn failed_states_name_the_call_the_choice_and_the_code() {
    let begin = "An error occurred while executing the state 's' (entered at the event id #2). ";
    for (state, input, error, cause) in [
        (
            json!({"Type": "Pass", "Parameters": {"v.$": "States.Array(States.Format('{}', $.nope), 1)"}, "Next": "e"}),
            json!({"other": 1}),
            "States.Runtime",
            "The function 'States.Array(States.Format('{}', $.nope), 1)' had the following error: The JsonPath argument \
             for the field '$.nope' could not be found in the input '{\"other\":1}'",
        ),
        (
            json!({"Type": "Choice", "Choices": [{"Variable": "$.a", "NumericEquals": 2, "Next": "e"}]}),
            json!({"a": 1}),
            "States.Runtime",
            "Failed to transition out of the state. The state does not point to a next state.",
        ),
        (
            json!({"Type": "Pass", "QueryLanguage": "JSONata", "Output": {"v": "{% $sum(['a']) %}"}, "Next": "e"}),
            json!({}),
            "States.QueryEvaluationError",
            "The JSONata expression '$sum(['a'])' specified for the field 'Output/v' threw an error during evaluation. \
             T0412: Argument 1 of function \"sum\" must be an array of \"numbers\"",
        ),
        (
            json!({"Type": "Pass", "QueryLanguage": "JSONata", "Assign": {"v": "{% $range(5, 1, 1) %}"}, "Next": "e"}),
            json!({}),
            "States.QueryEvaluationError",
            "The JSONata expression '$range(5, 1, 1)' specified for the field 'Assign/v' returned nothing (undefined).",
        ),
    ] {
        assert_eq!(failed(state, input), (error.to_owned(), format!("{begin}{cause}")));
    }
}
