//! Whole runs: status and output (tier 1), history (tier 2), causes (tier 3).

use minik8s_asl::definition::{Definition, MachineType};
use minik8s_asl::engine::{Event, HistoryEvent, Status, TaskRequest};
use serde_json::Value;

use crate::compare::same;
use crate::simulator::{Finished, function, run};
use crate::{Tally, read};

#[test]
#[ignore = "the recorded cases are not in this repository: ASL_CASES=DIR and --ignored"]
fn executions_match_recordings() {
    let cases = read("executions.json");
    let mut tiers = [1, 2, 3].map(|tier| Tally::new(&format!("executions.json tier {tier}")));
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let functions = case["functions"].clone();
        judge(case, id, &mut tiers, &mut |request| function(&functions, request));
    }
    Tally::end_all(&tiers, &[99.5, 99.0, 98.0]);
}

/// Children are not part of the cases: they answer what was recorded.
#[test]
#[ignore = "the recorded cases are not in this repository: ASL_CASES=DIR and --ignored"]
fn child_executions_match_recordings() {
    let cases = read("executions-extra.json");
    let mut tiers = [1, 2, 3].map(|tier| Tally::new(&format!("executions-extra.json tier {tier}")));
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let answers: Vec<Value> = case["history"].as_array().unwrap().clone();
        judge(case, id, &mut tiers, &mut |request| recorded(&answers, request));
    }
    Tally::end_all(&tiers, &[100.0, 100.0, 100.0]);
}

fn recorded(history: &[Value], request: &TaskRequest) -> Vec<(i64, Event)> {
    let task = request.task;
    let find = |kind: &str| history.iter().find(|event| event["type"] == kind);
    let mut events = Vec::new();
    if let Some(submitted) = find("TaskSubmitted") {
        events.push((1, Event::TaskSubmitted { task, output: submitted["output"].clone() }));
    }
    if let Some(succeeded) = find("TaskSucceeded") {
        events.push((2, Event::TaskSucceeded { task, output: succeeded["output"].clone() }));
    } else if let Some(failed) = find("TaskFailed") {
        let cause = match &failed["cause"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let error = failed["error"].as_str().unwrap().to_owned();
        events.push((2, Event::TaskFailed { task, error, cause: Some(cause) }));
    }
    events
}

fn judge(
    case: &Value,
    id: &str,
    tiers: &mut [Tally; 3],
    mock: &mut dyn FnMut(&TaskRequest) -> Vec<(i64, Event)>,
) {
    let [first, second, third] = tiers;
    let machine_type =
        if case["machine"] == "EXPRESS" { MachineType::Express } else { MachineType::Standard };
    let definition = match Definition::from_value(&case["definition"], machine_type) {
        Ok(definition) => definition,
        Err(diagnostics) => {
            first.count(id, Err(diagnostics.to_string()));
            return;
        }
    };
    let finished = run(definition, case["input"].clone(), mock);
    first.count(id, tier_one(&case["expected"], &finished));
    if let Some(history) = case.get("history").and_then(Value::as_array) {
        second.count(id, tier_two(history, &finished.history));
    }
    if case["expected"].get("cause").is_some() || case["expected"]["status"] == "FAILED" {
        third.count(id, tier_three(&case["expected"], &finished.status));
    }
}

fn tier_one(expected: &Value, finished: &Finished) -> Result<(), String> {
    let good = match (expected["status"].as_str(), &finished.status) {
        (Some("SUCCEEDED"), Status::Succeeded { output }) => same(&expected["output"], output),
        (Some("FAILED"), Status::Failed { error, .. }) => {
            same(&expected["error"], &error.clone().map_or(Value::Null, Value::String))
        }
        (Some("TIMED_OUT"), Status::TimedOut) => true,
        _ => false,
    };
    if good { Ok(()) } else { Err(format!("\n  expected {expected}\n  found    {:?}", finished.status)) }
}

fn tier_three(expected: &Value, status: &Status) -> Result<(), String> {
    let Status::Failed { cause, .. } = status else { return Err("did not fail".into()) };
    let found = cause.clone().map_or(Value::Null, Value::String);
    let mut wanted = expected.get("cause").cloned().unwrap_or(Value::Null);
    // Where in Python a function raised is nothing that is repeated here.
    if let Some(trace) = wanted.get_mut("stackTrace") {
        *trace = serde_json::json!(["<any>"]);
    }
    if same(&wanted, &found) { Ok(()) } else { Err(format!("\n  expected {wanted}\n  found    {found}")) }
}

type Line = (String, String);

fn tier_two(expected: &[Value], found: &[HistoryEvent]) -> Result<(), String> {
    let expected: Vec<Line> =
        expected.iter().map(|event| line(event["type"].as_str().unwrap(), event)).collect();
    // The recorder's sorting of branches lost these.
    let found: Vec<Line> = found
        .iter()
        .filter(|event| event.kind != "ParallelStateSucceeded")
        .map(|event| line(&event.kind, &Value::Object(event.details.clone())))
        .collect();
    if shape(&expected) == shape(&found) {
        return Ok(());
    }
    Err(format!("\n  expected {expected:?}\n  found    {found:?}"))
}

fn line(kind: &str, details: &Value) -> Line {
    (kind.to_owned(), details["name"].as_str().unwrap_or_default().to_owned())
}

/// What happens within Parallel and Map is sorted: branches run side by side.
fn shape(lines: &[Line]) -> Vec<Line> {
    let mut shaped = Vec::new();
    let mut inside: Vec<Line> = Vec::new();
    let mut depth = 0usize;
    for line in lines {
        let starts = line.0 == "ParallelStateEntered" || line.0 == "MapStateEntered";
        let ends = line.0 == "ParallelStateExited" || line.0 == "MapStateExited";
        if ends {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            inside.sort();
            shaped.append(&mut inside);
            shaped.push(line.clone());
        } else {
            inside.push(line.clone());
        }
        if starts {
            depth += 1;
        }
    }
    inside.sort();
    shaped.append(&mut inside);
    shaped
}
