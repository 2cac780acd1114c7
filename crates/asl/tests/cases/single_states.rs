//! AWS' TestState: one state, and the values in between.

use minik8s_asl::engine::Event;
use minik8s_asl::test_state::{self, Configuration, Mock, Request, Validation};
use serde_json::{Map, Value};

use crate::compare::same;
use crate::{Tally, read};

#[test]
#[ignore = "the recorded cases are not in this repository: ASL_CASES=DIR and --ignored"]
fn single_states_match_recordings() {
    let cases = read("single-states.json");
    let mut tally = Tally::new("single-states.json");
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let found = test_state::test_state_with(&request(case), |task| {
            let (_, payload) = task.function()?;
            // The functions of these cases: greet the input data, or give the input back.
            let output = match payload.get("inputData").and_then(Value::as_str) {
                Some(text) => format!("{text}!").into(),
                None => payload,
            };
            Some(Event::TaskSucceeded { task: task.task, output })
        });
        let outcome = match found {
            Ok(found) if same(&case["expected"], &named(&found)) => Ok(()),
            Ok(found) => Err(format!("\n  expected {}\n  found    {found}", case["expected"])),
            Err(refusal) => Err(refusal.to_string()),
        };
        tally.count(id, outcome);
    }
    Tally::end_all(&[tally], &[99.0]);
}

/// The recorder wrote other names than the inputs have.
fn named(value: &Value) -> Value {
    let text = value.to_string();
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("lambda_func_uid") {
        out.push_str(&rest[..at]);
        out.push_str("lambda_function_name");
        rest = rest[at + "lambda_func_uid".len()..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out.push_str(rest);
    let out = out.replace(
        "stepfunctions_standard_execution_arn()",
        "arn:aws:states:us-east-1:111111111111:execution:TargetStateMachine:TestStartTarget",
    );
    serde_json::from_str(&out).unwrap()
}

pub fn request(case: &Value) -> Request {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let json = |value: &Value| match value {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        value => value.clone(),
    };
    let mock = case.get("mock").map(|mock| Mock {
        result: text(&mock["result"]),
        error: mock
            .get("errorOutput")
            .map(|error| (error["error"].as_str().unwrap_or_default().to_owned(), text(&error["cause"]))),
        validation: match mock["fieldValidationMode"].as_str() {
            Some("NONE") => Validation::None,
            Some("PRESENT") => Validation::Present,
            _ => Validation::Strict,
        },
    });
    let configuration = &case["stateConfiguration"];
    Request {
        definition: case["definition"].clone(),
        state_name: text(&case["stateName"]),
        input: case.get("input").cloned().unwrap_or(Value::Object(Map::new())),
        context: case.get("context").map(json),
        variables: case
            .get("variables")
            .map(json)
            .and_then(|value| value.as_object().cloned())
            .unwrap_or_default(),
        mock,
        configuration: Configuration {
            retrier_retry_count: configuration["retrierRetryCount"].as_u64().unwrap_or(0),
            map_iteration_failure_count: configuration["mapIterationFailureCount"].as_i64(),
            map_item_reader_data: text(&configuration["mapItemReaderData"]),
        },
        role_arn: true,
        inspect: case["inspectionLevel"].as_str().is_some_and(|level| level != "INFO"),
    }
}
