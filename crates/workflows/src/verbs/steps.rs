//! What a run did, as text for people: its steps from its history, and where it stands. Pure.

use std::fmt::Write;

use minik8s_asl::timestamp::Timestamp;
use serde_json::Value;

use super::phase_of;
use crate::kinds::WorkflowRun;

const LONGEST_VALUE: usize = 60;

/// One visit of one state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    pub thread: u64,
    pub state: String,
    pub kind: String,
    pub entered: i64,
    /// Milliseconds; None while it lasts.
    pub took: Option<i64>,
    pub input: String,
    pub output: String,
    pub attempts: u64,
    pub error: String,
    /// The pod that carried out the last attempt, if it is known.
    pub pod: String,
    /// Whether its start was waited for.
    pub cold: Option<bool>,
}

/// The steps in the order in which they were entered, from all that is kept of a run.
pub fn steps(history: &Value) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (at, event) in history["events"].as_array().into_iter().flatten().enumerate() {
        let thread = history["threads"][at].as_u64().unwrap_or(0);
        let kind = event["type"].as_str().unwrap_or_default();
        let time = time_of(event);
        if let Some(state) = kind.strip_suffix("StateEntered") {
            let details = &event["stateEnteredEventDetails"];
            // A thread that is in another state has left this one: it failed, and was redriven.
            if let Some(left) = open_step(&mut steps, thread) {
                left.took = Some(time - left.entered);
            }
            steps.push(Step {
                thread,
                state: text(&details["name"]),
                kind: state.to_owned(),
                entered: time,
                input: text(&details["input"]),
                ..Step::default()
            });
        } else if kind.ends_with("StateExited") {
            let details = &event["stateExitedEventDetails"];
            if let Some(step) = open_step(&mut steps, thread) {
                step.took = Some(time - step.entered);
                step.output = text(&details["output"]);
            }
        } else if matches!(kind, "TaskScheduled" | "LambdaFunctionScheduled") {
            if let Some(step) = open_step(&mut steps, thread) {
                step.attempts += 1;
            }
        } else if matches!(
            kind,
            "TaskFailed" | "TaskTimedOut" | "LambdaFunctionFailed" | "LambdaFunctionTimedOut"
        ) {
            note_instance(&mut steps, thread, &history["instances"], event);
            let details =
                event.as_object().into_iter().flatten().find(|(key, _)| key.ends_with("EventDetails"));
            let error = details.map(|(_, details)| text(&details["error"])).unwrap_or_default();
            if let Some(step) = open_step(&mut steps, thread) {
                step.error = error;
            }
        } else if matches!(kind, "TaskSucceeded" | "LambdaFunctionSucceeded" | "TaskSubmitted") {
            note_instance(&mut steps, thread, &history["instances"], event);
        }
    }
    steps
}

/// Who carried out the task whose end an event tells.
fn note_instance(steps: &mut [Step], thread: u64, instances: &Value, event: &Value) {
    let known = &instances[event["id"].to_string()];
    if let (Some(pod), Some(step)) = (known["pod"].as_str(), open_step(steps, thread)) {
        step.pod = pod.to_owned();
        step.cold = known["cold"].as_bool();
    }
}

/// What a thread is in: it is in one state at a time.
fn open_step(steps: &mut [Step], thread: u64) -> Option<&mut Step> {
    steps.iter_mut().rev().find(|step| step.thread == thread && step.took.is_none())
}

pub fn table(history: &Value) -> String {
    let events = history["events"].as_array().map_or(&[][..], Vec::as_slice);
    let rows = steps(history).into_iter().map(|step| {
        vec![
            step.state,
            step.kind,
            if step.attempts > 1 { step.attempts.to_string() } else { "-".to_owned() },
            step.took.map_or("…".to_owned(), duration),
            step.cold.map_or("-", |cold| if cold { "cold" } else { "warm" }).to_owned(),
            shorten(&step.input),
            if step.output.is_empty() { step.error } else { shorten(&step.output) },
        ]
    });
    let mut text = columns(&["STATE", "TYPE", "ATTEMPTS", "DURATION", "START", "INPUT", "OUTPUT"], rows);
    if let Some(event) =
        events.last().filter(|event| event["type"].as_str().is_some_and(|kind| kind.starts_with("Execution")))
    {
        let _ = writeln!(text, "\n{}", ending(event));
    }
    text
}

fn ending(event: &Value) -> String {
    let kind = text(&event["type"]).replacen("Execution", "", 1);
    let details = event.as_object().into_iter().flatten().find(|(key, _)| key.ends_with("EventDetails"));
    let Some((_, details)) = details else { return kind };
    match (&details["output"], &details["error"]) {
        (Value::Null, error) => {
            format!("{kind}: {} {}", text(error), text(&details["cause"])).trim_end().to_owned()
        }
        (output, _) => format!("{kind}: {}", text(output)),
    }
}

pub fn runs(runs: &[WorkflowRun], now: i64) -> String {
    let rows = runs.iter().map(|run| {
        let status = run.status.clone().unwrap_or_default();
        let start = status.start_time.as_ref().map(|time| time.0.as_millisecond());
        let end = status.completion_time.as_ref().map_or(now, |time| time.0.as_millisecond());
        vec![
            run.metadata.name.clone().unwrap_or_default(),
            run.spec.workflow.clone(),
            phase_of(run),
            if status.current_states.is_empty() { "-".to_owned() } else { status.current_states.join(",") },
            start.map_or("-".to_owned(), |start| duration(end - start)),
            status.error.unwrap_or_else(|| "-".to_owned()),
        ]
    });
    columns(&["RUN", "WORKFLOW", "PHASE", "STATE", "DURATION", "ERROR"], rows)
}

/// Where a run stands and why, and what would help.
pub fn why(run: &WorkflowRun, history: Option<&Value>, now: i64) -> String {
    let name = run.metadata.name.as_deref().unwrap_or_default();
    let status = run.status.clone().unwrap_or_default();
    let mut told = format!("run {name} of workflow {} is {}", run.spec.workflow, phase_of(run));
    if let Some(error) = &status.error {
        let _ = write!(told, ": {error}");
    }
    told.push('\n');
    if let Some(cause) = &status.cause {
        let _ = writeln!(told, "  cause: {cause}");
    }
    let Some(history) = history else {
        let _ = writeln!(told, "  nothing is kept of it: it has not begun, or its workflow is Express");
        return told;
    };
    let all = steps(history);
    for step in all.iter().filter(|step| step.took.is_none()) {
        let verb = if run.is_over() { "ended in" } else { "waits in" };
        let _ = write!(
            told,
            "  {verb} {} ({}), entered {} ago",
            step.state,
            step.kind,
            duration(now - step.entered)
        );
        if step.attempts > 1 {
            let _ = write!(told, ", attempt {}", step.attempts);
        }
        if !step.error.is_empty() {
            let _ = write!(told, ", last error {}", step.error);
        }
        let _ = writeln!(told, "\n    input: {}", shorten(&step.input));
    }
    match status.error.as_deref() {
        Some("Lambda.ResourceNotFoundException") => {
            told += "  There is no such function: create it, then redrive the run.\n"
        }
        Some("States.Http.Forbidden") => {
            told += "  http:invoke reaches public addresses and Services of the run's namespace; see docs/workflows.md.\n"
        }
        Some("States.DataLimitExceeded") => {
            told += "  A state's data has at most 256 KiB: pass a reference instead.\n"
        }
        _ => {}
    }
    if run.is_over() && status.phase != Some(crate::kinds::Phase::Succeeded) {
        let _ = writeln!(told, "  To go on from there: minik8s workflow redrive {name}");
    }
    told
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn time_of(event: &Value) -> i64 {
    event["timestamp"].as_str().and_then(Timestamp::parse).map_or(0, |time| time.milliseconds)
}

fn duration(milliseconds: i64) -> String {
    match milliseconds {
        short if short < 1000 => format!("{short}ms"),
        middle if middle < 60_000 => format!("{}.{}s", middle / 1000, middle % 1000 / 100),
        long => minik8s_meta::human_duration(long / 1000),
    }
}

fn shorten(text: &str) -> String {
    match text.chars().count() > LONGEST_VALUE {
        true => text.chars().take(LONGEST_VALUE - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn columns(headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut lines: Vec<Vec<String>> = vec![headings.iter().map(|&heading| heading.to_owned()).collect()];
    lines.extend(rows);
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("   ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn history(most: usize) -> Value {
        let mut events = vec![
            json!({"type": "ExecutionStarted", "timestamp": "2026-01-01T00:00:00.000Z"}),
            json!({"type": "TaskStateEntered", "timestamp": "2026-01-01T00:00:00.000Z", "stateEnteredEventDetails": {"name": "add", "input": "{\"a\":5}"}}),
            json!({"type": "LambdaFunctionScheduled", "timestamp": "2026-01-01T00:00:00.000Z"}),
            json!({"type": "LambdaFunctionFailed", "timestamp": "2026-01-01T00:00:00.100Z", "lambdaFunctionFailedEventDetails": {"error": "Busy"}}),
            json!({"type": "LambdaFunctionScheduled", "timestamp": "2026-01-01T00:00:01.000Z"}),
            json!({"type": "TaskStateExited", "timestamp": "2026-01-01T00:00:01.250Z", "stateExitedEventDetails": {"name": "add", "output": "8"}}),
            json!({"type": "ExecutionSucceeded", "timestamp": "2026-01-01T00:00:01.250Z", "executionSucceededEventDetails": {"output": "8"}}),
        ];
        events.truncate(most);
        let threads = vec![0; events.len()];
        json!({"events": events, "threads": threads})
    }

    #[test]
    fn steps_have_input_output_duration_and_attempts() {
        let found = steps(&history(9));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].took, found[0].attempts, found[0].output.as_str()), (Some(1250), 2, "8"));
        let shown = table(&history(9));
        assert!(shown.contains("add     Task   2          1.2s"), "{shown}");
        assert!(shown.ends_with("Succeeded: 8\n"), "{shown}");
    }

    #[test]
    fn steps_tell_cold_or_warm_and_the_pod() {
        let mut told = history(9);
        told["events"][5] =
            json!({"type": "LambdaFunctionSucceeded", "id": 6, "timestamp": "2026-01-01T00:00:01.200Z"});
        assert_eq!(steps(&told)[0].cold, None);
        told["instances"] = json!({"6": {"pod": "add-1", "cold": true}});
        let found = steps(&told);
        assert_eq!((found[0].pod.as_str(), found[0].cold), ("add-1", Some(true)));
        assert!(table(&told).contains("cold"), "{}", table(&told));
    }

    #[test]
    fn steps_at_once_are_told_apart_by_thread() {
        let at = |second: u32| format!("2026-01-01T00:00:0{second}.000Z");
        let entered = |input: &str| json!({"type": "PassStateEntered", "timestamp": at(0), "stateEnteredEventDetails": {"name": "each", "input": input}});
        let left = |output: &str, second| json!({"type": "PassStateExited", "timestamp": at(second), "stateExitedEventDetails": {"name": "each", "output": output}});
        let history = json!({"events": [entered("1"), entered("2"), left("two", 1), left("one", 2)], "threads": [5, 6, 6, 5]});
        let found: Vec<(String, String, Option<i64>)> =
            steps(&history).into_iter().map(|step| (step.input, step.output, step.took)).collect();
        let expected = [("1", "one", 2000), ("2", "two", 1000)];
        assert_eq!(
            found,
            expected.map(|(input, output, took)| (input.to_owned(), output.to_owned(), Some(took)))
        );
    }

    #[test]
    fn why_tells_where_a_run_stands() {
        let run: WorkflowRun = serde_json::from_value(json!({
            "metadata": {"name": "r"}, "spec": {"workflow": "w"},
            "status": {"phase": "Failed", "error": "Busy", "cause": "too much"},
        }))
        .unwrap();
        let told = why(&run, Some(&history(4)), 1_767_225_601_000);
        assert!(told.starts_with("run r of workflow w is Failed: Busy\n  cause: too much\n"), "{told}");
        assert!(told.contains("ended in add (Task), entered 1.0s ago, last error Busy"), "{told}");
        assert!(told.contains("redrive r"), "{told}");
    }
}
