//! AWS' TestState: one state with an input, and what it would give, with the values in between.
//!
//! Nothing is called: results of tasks, maps and parallels are mocked, or a closure answers for them.

mod mock_schema;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::definition::{Definition, Kind, Language, Resource};
use crate::engine::{Event, Execution, Identity, Inspection, Start, TaskRequest};
use crate::failure::{self, Failure};
use crate::values::integer;

/// What to test.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// A state, or a machine of which `state_name` is tested.
    pub definition: Value,
    pub state_name: Option<String>,
    pub input: Value,
    pub context: Option<Value>,
    pub variables: Map<String, Value>,
    pub mock: Option<Mock>,
    pub configuration: Configuration,
    /// A role was given: tasks may be called.
    pub role_arn: bool,
    /// Tell the values in between.
    pub inspect: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Mock {
    /// JSON text.
    pub result: Option<String>,
    pub error: Option<(String, Option<String>)>,
    pub validation: Validation,
}

/// How strictly a mocked result is held against what the service answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validation {
    #[default]
    Strict,
    Present,
    None,
}

#[derive(Debug, Clone, Default)]
pub struct Configuration {
    pub retrier_retry_count: u64,
    pub map_iteration_failure_count: Option<i64>,
    /// JSON text.
    pub map_item_reader_data: Option<String>,
}

/// Why nothing was tested: AWS' code and message.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    pub code: &'static str,
    pub message: String,
}

impl Refusal {
    fn validation(message: impl Into<String>) -> Self {
        Self { code: "ValidationException", message: message.into() }
    }

    fn definition(message: impl Into<String>) -> Self {
        Self { code: "InvalidDefinition", message: message.into() }
    }
}

/// Tests a state whose task, if it is one, is mocked.
pub fn test_state(request: &Request) -> Result<Value, Refusal> {
    test_state_with(request, |_| None)
}

/// Tests a state; `call` answers for tasks that are not mocked.
pub fn test_state_with(
    request: &Request,
    call: impl FnOnce(&TaskRequest) -> Option<Event>,
) -> Result<Value, Refusal> {
    let (mut definition, name) = definition(request)?;
    let Some(state) = definition.machine.states.get(&name) else {
        return Err(Refusal::validation(format!("State not found: {name}")));
    };
    check(request, &state.kind)?;
    let mocked = mocked(request, &state.kind)?;
    let language = state.language;
    if let Some(data) = &request.configuration.map_item_reader_data
        && let Some(Kind::Map(map)) = definition.machine.states.get_mut(&name).map(|state| &mut state.kind)
    {
        let items = serde_json::from_str(data)
            .map_err(|_| Refusal::validation("Map item reader data must be valid JSON"))?;
        map.read_items = Some(items);
    }
    let kind = definition.machine.states.get(&name).map(|state| state.kind.clone());
    let mut execution = Execution::begin(Arc::new(definition), start(request));
    execution.inspection = Some(Inspection {
        context: request.context.clone(),
        mocked: mocked.is_some(),
        ..Inspection::default()
    });
    execution.inspect(request.variables.clone());
    match mocked {
        Some(result) => {
            let result = result.and_then(|result| tolerate(request, kind.as_ref(), &execution, result));
            execution.inspect_result(result, request.configuration.retrier_retry_count);
        }
        None => {
            if let Some(scheduled) = execution.scheduled()
                && let Some(event) = call(&scheduled)
            {
                execution.inspect_event(&event);
            }
        }
    }
    Ok(answer(request, &execution, kind.as_ref(), language))
}

fn definition(request: &Request) -> Result<(Definition, String), Refusal> {
    let (whole, name) = match (&request.state_name, request.definition.get("States")) {
        (Some(name), Some(states)) => {
            let Some(state) = find(states, name) else {
                return Err(Refusal::validation(format!("State not found: {name}")));
            };
            let mut whole = request.definition.clone();
            whole["States"] = json!({name.clone(): state});
            whole["StartAt"] = name.clone().into();
            (whole, name.clone())
        }
        _ => (
            json!({"StartAt": "StateName", "States": {"StateName": request.definition}}),
            "StateName".to_owned(),
        ),
    };
    Definition::of_state(&whole, &name)
        .map(|definition| (definition, name))
        .map_err(|diagnostics| Refusal::definition(diagnostics.to_string()))
}

/// A state by its name, which is unique across branches and iterations.
fn find<'a>(states: &'a Value, name: &str) -> Option<&'a Value> {
    states.get(name).or_else(|| {
        states.as_object()?.values().find_map(|state| {
            let branches = state.get("Branches").and_then(Value::as_array).into_iter().flatten();
            let processors = ["ItemProcessor", "Iterator"].iter().filter_map(|field| state.get(*field));
            branches.chain(processors).find_map(|machine| find(machine.get("States")?, name))
        })
    })
}

fn start(request: &Request) -> Start {
    Start {
        identity: Identity {
            execution_id: "arn:aws:states:::execution:test:test".into(),
            execution_name: "test".into(),
            machine_id: "arn:aws:states:::stateMachine:test".into(),
            machine_name: "test".into(),
            role_arn: "arn:aws:iam:::role/test".into(),
            ..Identity::default()
        },
        input: request.input.clone(),
        time: 0,
        seed: 0,
    }
}

fn check(request: &Request, kind: &Kind) -> Result<(), Refusal> {
    let composite = matches!(kind, Kind::Map(_) | Kind::Parallel { .. });
    let Some(mock) = &request.mock else {
        if request.configuration.map_iteration_failure_count.is_some() {
            return Err(Refusal::validation(
                "TestState does not support MapIterationFailureCount when a mock is not specified.",
            ));
        }
        if composite {
            return Err(Refusal::definition(
                "TestState API does not support Map or Parallel states. Supported state types include: [Task, Wait, \
                 Pass, Succeed, Fail, Choice]",
            ));
        }
        if matches!(kind, Kind::Task(_)) && !request.role_arn {
            return Err(Refusal::validation("RoleArn must be specified when testing a Task state"));
        }
        return Ok(());
    };
    if mock.result.is_some() && mock.error.is_some() {
        return Err(Refusal::validation(
            "A test mock should have only one of the following fields: [result, errorOutput].",
        ));
    }
    if !composite && !matches!(kind, Kind::Task(_)) {
        return Err(Refusal::validation(format!(
            "State type '{}' is not supported when a mock is specified",
            kind.name()
        )));
    }
    Ok(())
}

/// The mocked result or failure.
fn mocked(request: &Request, kind: &Kind) -> Result<Option<Result<Value, Failure>>, Refusal> {
    let Some(mock) = &request.mock else { return Ok(None) };
    if let Some((error, cause)) = &mock.error {
        return Ok(Some(Err(Failure::reported(Some(error.clone()), cause.clone()))));
    }
    let Some(text) = &mock.result else { return Ok(None) };
    let result: Value =
        serde_json::from_str(text).map_err(|_| Refusal::validation("Mocked result must be valid JSON"))?;
    match kind {
        Kind::Map(map) if map.writer.is_some() && !result.is_object() => {
            return Err(Refusal::validation("Mocked result must be a JSON object."));
        }
        Kind::Map(map) if map.writer.is_some() => {}
        Kind::Map(_) | Kind::Parallel { .. } if !result.is_array() => {
            return Err(Refusal::validation("Mocked result must be an array."));
        }
        Kind::Parallel { branches } if result.as_array().map(Vec::len) != Some(branches.len()) => {
            return Err(Refusal::validation(
                "Mocked result must contain the same number of items as number of Parallel branches.",
            ));
        }
        Kind::Task(task) => check_schema(&task.resource, &result, mock.validation)?,
        _ => {}
    }
    if let (Some(failed), Some(items)) =
        (request.configuration.map_iteration_failure_count, result.as_array())
        && failed > items.len() as i64
    {
        return Err(Refusal::validation(
            "Map iteration failure count must be less than or equal to the number of Map iterations",
        ));
    }
    Ok(Some(Ok(result)))
}

fn check_schema(resource: &Resource, result: &Value, validation: Validation) -> Result<(), Refusal> {
    if validation == Validation::None {
        return Ok(());
    }
    mock_schema::check(resource, result, validation == Validation::Strict)
        .map_err(|problem| Refusal::validation(format!("Mock result schema validation error: {problem}")))
}

/// Whether as many failed iterations are tolerated.
fn tolerate(
    request: &Request,
    kind: Option<&Kind>,
    execution: &Execution,
    result: Value,
) -> Result<Value, Failure> {
    let (Some(Kind::Map(_)), Some(failed)) = (kind, request.configuration.map_iteration_failure_count) else {
        return Ok(result);
    };
    let seen = |key: &str| execution.inspection.as_ref().and_then(|inspection| inspection.values.get(key));
    let count = seen("toleratedFailureCount").and_then(integer);
    let percentage = seen("toleratedFailurePercentage").and_then(Value::as_f64);
    let all = result.as_array().map_or(1, |items| items.len().max(1));
    let exceeded = count.is_some_and(|count| failed > count)
        || percentage.is_some_and(|percentage| failed as f64 * 100.0 / all as f64 > percentage);
    if exceeded {
        return Err(Failure::new(
            failure::EXCEED_TOLERATED,
            "The specified tolerated failure threshold was exceeded",
        ));
    }
    Ok(result)
}

fn answer(request: &Request, execution: &Execution, kind: Option<&Kind>, language: Language) -> Value {
    let Some(inspection) = &execution.inspection else { return Value::Null };
    let mut answer = Map::new();
    let status = match (&inspection.failure, &inspection.output) {
        (Some(_), Some(_)) => "CAUGHT_ERROR",
        (Some(_), None) if execution.inspected_retry() => "RETRIABLE",
        (Some(_), None) => "FAILED",
        (None, _) => "SUCCEEDED",
    };
    let failed = inspection.failure.clone().or_else(|| match &execution.state.status {
        crate::engine::Status::Failed { error, cause } => {
            Some(Failure::reported(error.clone(), cause.clone()))
        }
        _ => None,
    });
    let status = if failed.is_some() && status == "SUCCEEDED" { "FAILED" } else { status };
    answer.insert("status".into(), status.into());
    if let Some(failure) = failed {
        for (key, value) in [("error", failure.error), ("cause", failure.cause)] {
            if let Some(value) = value {
                answer.insert(key.into(), value.into());
            }
        }
    }
    if let Some(output) = &inspection.output {
        answer.insert("output".into(), output.clone());
    }
    if let Some(next) = &inspection.next {
        answer.insert("nextState".into(), next.clone().into());
    }
    if request.inspect {
        answer.insert("inspectionData".into(), inspection_data(request, inspection, kind, language));
    }
    Value::Object(answer)
}

/// The values that AWS shows for a kind of state.
fn inspection_data(
    request: &Request,
    inspection: &Inspection,
    kind: Option<&Kind>,
    language: Language,
) -> Value {
    let shown: &[&str] = match (kind, language) {
        (Some(Kind::Pass { result: Some(_) }), Language::JsonPath) => {
            &["result", "afterResultSelector", "afterResultPath"]
        }
        (Some(Kind::Pass { .. }), Language::JsonPath) => {
            &["afterInputPath", "afterParameters", "afterResultSelector", "afterResultPath"]
        }
        (Some(Kind::Task(_)), Language::JsonPath) => {
            &["afterInputPath", "afterParameters", "result", "afterResultSelector", "afterResultPath"]
        }
        (Some(Kind::Task(_)), Language::Jsonata) => &["afterArguments", "result"],
        (Some(Kind::Parallel { .. }), Language::JsonPath) => &["afterResultSelector", "afterResultPath"],
        (Some(Kind::Map(_)), Language::JsonPath) => &[
            "afterInputPath",
            "afterItemsPath",
            "afterResultSelector",
            "afterResultPath",
            "maxConcurrency",
            "toleratedFailureCount",
            "toleratedFailurePercentage",
        ],
        (Some(Kind::Map(_)), Language::Jsonata) => {
            &["maxConcurrency", "toleratedFailureCount", "toleratedFailurePercentage"]
        }
        (
            Some(Kind::Choice { .. } | Kind::Wait(_) | Kind::Succeed | Kind::Fail { .. }),
            Language::JsonPath,
        ) => &["afterInputPath"],
        _ => &[],
    };
    let mut data = Map::new();
    data.insert("input".into(), request.input.clone());
    for key in shown {
        if let Some(value) = inspection.values.get(*key) {
            data.insert((*key).into(), value.clone());
        }
    }
    let mut details = Map::new();
    for key in ["catchIndex", "retryIndex", "retryBackoffIntervalSeconds"] {
        if let Some(value) = inspection.values.get(key) {
            details.insert(key.into(), value.clone());
        }
    }
    if !details.is_empty() {
        data.insert("errorDetails".into(), Value::Object(details));
    }
    Value::Object(data)
}
