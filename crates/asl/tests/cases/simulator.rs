//! Carries out a run's commands with mock functions on a clock of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use minik8s_asl::definition::Definition;
use minik8s_asl::engine::{Command, Event, Execution, HistoryEvent, Identity, Start, Status, TaskRequest};
use serde_json::{Value, json};

pub struct Finished {
    pub status: Status,
    pub history: Vec<HistoryEvent>,
}

/// What a mock says to a task: after how many milliseconds, and what.
pub type Mock<'a> = dyn FnMut(&TaskRequest) -> Vec<(i64, Event)> + 'a;

pub fn run(definition: Definition, input: Value, mock: &mut Mock<'_>) -> Finished {
    let start = Start {
        identity: Identity {
            execution_id: "arn:aws:states:us-east-1:111111111111:execution:machine-name:run".into(),
            execution_name: "run".into(),
            machine_id: "arn:aws:states:us-east-1:111111111111:stateMachine:machine-name".into(),
            machine_name: "machine-name".into(),
            role_arn: "arn:aws:iam::111111111111:role/r".into(),
            ..Identity::default()
        },
        input,
        time: 1_700_000_000_000,
        seed: 7,
    };
    let definition = Arc::new(definition);
    let (mut execution, mut commands) = Execution::start(definition.clone(), start.clone());
    let mut history = execution.take_history();
    let mut agenda: BTreeMap<(i64, usize), Event> = BTreeMap::new();
    let mut told: Vec<(i64, Event)> = Vec::new();
    let (mut now, mut order) = (start.time, 0);
    loop {
        for command in commands {
            match command {
                Command::ScheduleTask(request) => {
                    for (delay, event) in mock(&request) {
                        order += 1;
                        agenda.insert((now + delay, order), event);
                    }
                }
                Command::StartTimer { timer, at } => {
                    order += 1;
                    agenda.insert((at, order), Event::TimerFired { timer });
                }
                Command::CancelTask { .. } | Command::CancelTimer { .. } | Command::Complete(_) => {}
            }
        }
        let Some(((at, _), event)) = agenda.pop_first() else { break };
        if execution.state.status != Status::Running {
            break;
        }
        now = now.max(at);
        commands = execution.apply(&event, now);
        told.push((now, event));
        history.extend(execution.take_history());
    }
    // Every run also shows that replaying its events, and keeping its state as text, give the same run.
    let replayed = Execution::replay(definition, start, &told);
    assert_eq!(replayed.state, execution.state, "a replay differs");
    let text = serde_json::to_string(&execution.state).unwrap();
    assert_eq!(serde_json::from_str::<minik8s_asl::engine::State>(&text).unwrap(), execution.state);
    Finished { status: execution.state.status.clone(), history }
}

/// The behaviours of recorded functions.
pub fn function(functions: &Value, request: &TaskRequest) -> Vec<(i64, Event)> {
    let task = request.task;
    let (name, payload) = request.function().unwrap();
    let Some(behaviour) = functions.get(&name) else {
        return vec![(
            1,
            Event::TaskFailed {
                task,
                error: "Lambda.ResourceNotFoundException".into(),
                cause: Some(format!("Function not found: {name}")),
            },
        )];
    };
    let delay = behaviour["sleepSeconds"].as_i64().unwrap_or(0) * 1000 + 1;
    if let Some(raised) = behaviour.get("raise") {
        let cause = json!({
            "errorMessage": raised["errorMessage"], "errorType": raised["errorType"], "requestId": "r",
            "stackTrace": ["<any>"],
        });
        let error = raised["errorType"].as_str().unwrap().to_owned();
        return vec![(delay, Event::TaskFailed { task, error, cause: Some(cause.to_string()) })];
    }
    let output = if let Some(value) = behaviour.get("value") {
        value.clone()
    } else if let Some(text) = behaviour.get("repeat").and_then(Value::as_str) {
        text.repeat(behaviour["times"].as_u64().unwrap() as usize).into()
    } else if let Some(format) = behaviour.get("format").and_then(Value::as_str) {
        format.replace("{python_str_of_input}", payload.as_str().unwrap_or(&payload.to_string())).into()
    } else {
        payload
    };
    // The log is for whoever runs functions to add.
    let output = match request.parameters["LogType"] == "Tail" {
        true => {
            let mut whole = minik8s_asl::engine::lambda_invoke_output(&output);
            whole["LogResult"] = "bG9n".into();
            whole
        }
        false => output,
    };
    vec![(delay, Event::TaskSucceeded { task, output })]
}
