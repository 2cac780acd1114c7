//! Runs as tables: definitions, what tasks answer, and how the run ends; and properties that hold for every run.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use minik8s_asl::definition::{Definition, MachineType};
use minik8s_asl::engine::{
    Command, Event, Execution, Identity, MAP_ITERATION, Start, State, Status, TaskRequest,
};
use proptest::prelude::*;
use serde_json::{Value, json};

type Answer = Result<Value, (&'static str, &'static str)>;

struct Run {
    status: Status,
    kinds: Vec<String>,
    /// When it ended, in milliseconds since the start.
    took: i64,
    events: Vec<(i64, Event)>,
    requests: Vec<TaskRequest>,
}

fn definition(value: &Value) -> Arc<Definition> {
    Arc::new(Definition::from_value(value, MachineType::Standard).unwrap())
}

/// Iterations of a distributed Map that are runs of their own are tasks, and their ends the results, in order.
#[test]
fn distributed_map_asks_for_runs() {
    let machine = |tolerated: i64| {
        json!({"StartAt": "m", "States": {"m": {"Type": "Map", "End": true, "MaxConcurrency": 2, "ToleratedFailureCount": tolerated,
            "ItemSelector": {"v.$": "$$.Map.Item.Value"}, "ItemProcessor": {"StartAt": "t",
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "States": {"t": {"Type": "Task", "Resource": "function:f", "End": true}}}}}})
    };
    let mut begun = start(json!([1, 2, 3]));
    begun.identity.map_runs = true;
    let tasks = |commands: &[Command]| -> Vec<TaskRequest> {
        let scheduled = commands.iter().filter_map(|command| match command {
            Command::ScheduleTask(request) => Some((**request).clone()),
            _ => None,
        });
        scheduled.collect()
    };
    let (mut execution, commands) = Execution::start(definition(&machine(1)), begun.clone());
    let first = tasks(&commands);
    assert_eq!(first.len(), 2, "two at once");
    assert_eq!(first[0].resource, MAP_ITERATION);
    assert_eq!(first[0].parameters["input"], json!({"v": 1}));
    assert_eq!(first[1].parameters["place"], json!([{"state": "m", "branch": 0}]));
    assert_eq!(execution.current_states(), ["m"]);
    let succeeds = |task: u64, output: Value| Event::TaskSucceeded { task, output };
    let last = tasks(&execution.apply(&succeeds(first[1].task, json!("b")), 1));
    let fails = Event::TaskFailed { task: first[0].task, error: "Bad".into(), cause: None };
    execution.apply(&fails, 2);
    execution.apply(&succeeds(last[0].task, json!("c")), 3);
    let expected = json!([{"Error": "Bad"}, "b", "c"]);
    assert!(matches!(&execution.state.status, Status::Succeeded { output } if *output == expected));
    // One failure too many calls the others off.
    let (mut execution, commands) = Execution::start(definition(&machine(0)), begun);
    let both = tasks(&commands);
    let fails = Event::TaskFailed { task: both[1].task, error: "Bad".into(), cause: None };
    let commands = execution.apply(&fails, 1);
    assert!(commands.contains(&Command::CancelTask { task: both[0].task }), "{commands:?}");
    assert!(
        matches!(&execution.state.status, Status::Failed { error: Some(error), .. } if error == "States.ExceedToleratedFailureThreshold")
    );
}

fn start(input: Value) -> Start {
    let identity =
        Identity { execution_id: "run-1".into(), execution_name: "one".into(), ..Identity::default() };
    Start { identity, input, time: 0, seed: 42 }
}

/// Runs to the end; a task takes `millis` and answers what `answer` says (nothing: it never ends).
fn run(machine: &Value, input: Value, mut answer: impl FnMut(&TaskRequest) -> Option<(i64, Answer)>) -> Run {
    let (mut execution, mut commands) = Execution::start(definition(machine), start(input));
    let mut agenda: BTreeMap<(i64, u64), Event> = BTreeMap::new();
    let (mut now, mut order) = (0, 0);
    let (mut events, mut requests) = (Vec::new(), Vec::new());
    let mut kinds: Vec<String> = Vec::new();
    loop {
        kinds.extend(execution.take_history().into_iter().map(|event| event.kind));
        for command in commands {
            order += 1;
            match command {
                Command::ScheduleTask(request) => {
                    let task = request.task;
                    match answer(&request) {
                        Some((after, Ok(output))) => {
                            agenda.insert((now + after, order), Event::TaskSucceeded { task, output });
                        }
                        Some((after, Err((error, cause)))) => {
                            let event =
                                Event::TaskFailed { task, error: error.into(), cause: Some(cause.into()) };
                            agenda.insert((now + after, order), event);
                        }
                        None => {}
                    }
                    requests.push(*request);
                }
                Command::StartTimer { timer, at } => {
                    agenda.insert((at, order), Event::TimerFired { timer });
                }
                Command::CancelTimer { timer } => {
                    agenda.retain(|_, event| *event != Event::TimerFired { timer });
                }
                Command::CancelTask { .. } | Command::Complete(_) => {}
            }
        }
        let Some(((at, _), event)) = agenda.pop_first() else { break };
        if execution.state.status != Status::Running {
            break;
        }
        now = now.max(at);
        commands = execution.apply(&event, now);
        events.push((now, event));
    }
    Run { status: execution.state.status.clone(), kinds, took: now, events, requests }
}

fn succeeded(run: &Run) -> &Value {
    match &run.status {
        Status::Succeeded { output } => output,
        other => panic!("{other:?}"),
    }
}

fn failed(run: &Run) -> (&str, &str) {
    match &run.status {
        Status::Failed { error, cause } => (error.as_deref().unwrap_or(""), cause.as_deref().unwrap_or("")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn retry_backs_off_with_rate_and_longest_delay() {
    let machine = json!({"StartAt": "t", "States": {"t": {"Type": "Task", "Resource": "function:f", "End": true, "Retry": [
        {"ErrorEquals": ["Busy"], "IntervalSeconds": 2, "BackoffRate": 3, "MaxDelaySeconds": 10, "MaxAttempts": 4}]}}});
    let run = run(&machine, json!({}), |_| Some((0, Err(("Busy", "later")))));
    assert_eq!(failed(&run), ("Busy", "later"));
    assert_eq!(run.took, (2 + 6 + 10 + 10) * 1000);
    assert_eq!(run.requests.iter().map(|request| request.attempt).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn retriers_count_apart_and_catch_follows() {
    let machine = json!({"StartAt": "t", "States": {
        "t": {"Type": "Task", "Resource": "function:f", "End": true,
            "Retry": [{"ErrorEquals": ["A"], "MaxAttempts": 1}, {"ErrorEquals": ["States.ALL"], "MaxAttempts": 1}],
            "Catch": [{"ErrorEquals": ["B"], "Next": "c", "ResultPath": "$.error"}]},
        "c": {"Type": "Pass", "End": true}}});
    let mut errors = ["A", "B", "B"].into_iter();
    let run = run(&machine, json!({"x": 1}), |_| errors.next().map(|error| (0, Err((error, "why")))));
    assert_eq!(succeeded(&run), &json!({"x": 1, "error": {"Error": "B", "Cause": "why"}}));
}

#[test]
fn timeout_cancels_task_and_heartbeat_extends_only_itself() {
    let machine = json!({"StartAt": "t", "States": {"t": {"Type": "Task", "Resource": "function:f", "End": true,
        "TimeoutSeconds": 5, "HeartbeatSeconds": 2}}});
    let (mut execution, commands) = Execution::start(definition(&machine), start(json!({})));
    let timers: Vec<(u64, i64)> = commands
        .iter()
        .filter_map(|command| match command {
            Command::StartTimer { timer, at } => Some((*timer, *at)),
            _ => None,
        })
        .collect();
    assert_eq!(timers.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [5000, 2000]);
    let task = commands.iter().find_map(|command| match command {
        Command::ScheduleTask(request) => Some(request.task),
        _ => None,
    });
    let beat = execution.apply(&Event::TaskHeartbeat { task: task.unwrap() }, 1500);
    assert!(
        matches!(beat[..], [Command::CancelTimer { .. }, Command::StartTimer { at: 3500, .. }]),
        "{beat:?}"
    );
    // The old heartbeat timer is late: nothing happens.
    assert!(execution.apply(&Event::TimerFired { timer: timers[1].0 }, 2000).is_empty());
    let over = execution.apply(&Event::TimerFired { timer: timers[0].0 }, 5000);
    assert!(over.contains(&Command::CancelTask { task: task.unwrap() }), "{over:?}");
    assert_eq!(execution.state.status, Status::Failed { error: Some("States.Timeout".into()), cause: None });
}

#[test]
fn parallel_failure_cancels_siblings() {
    let branch = |name: &str| json!({"StartAt": name, "States": {name: {"Type": "Task", "Resource": format!("function:{name}"), "End": true}}});
    let machine = json!({"StartAt": "p", "States": {"p": {"Type": "Parallel", "End": true, "Branches": [branch("slow"), branch("bad")]}}});
    let (mut execution, commands) = Execution::start(definition(&machine), start(json!({})));
    let tasks: Vec<(u64, String)> = commands
        .iter()
        .filter_map(|command| match command {
            Command::ScheduleTask(request) => Some((request.task, request.resource.clone())),
            _ => None,
        })
        .collect();
    let bad = tasks.iter().find(|(_, resource)| resource == "function:bad").unwrap().0;
    let slow = tasks.iter().find(|(_, resource)| resource == "function:slow").unwrap().0;
    let commands = execution.apply(&Event::TaskFailed { task: bad, error: "E".into(), cause: None }, 1);
    assert!(commands.contains(&Command::CancelTask { task: slow }));
    assert!(matches!(commands.last(), Some(Command::Complete(Status::Failed { .. }))));
    // What comes after the end changes nothing.
    assert!(execution.apply(&Event::TaskSucceeded { task: slow, output: json!(1) }, 2).is_empty());
}

#[test]
fn map_respects_concurrency_and_keeps_order() {
    let machine = json!({"StartAt": "m", "States": {"m": {"Type": "Map", "End": true, "MaxConcurrency": 2,
        "ItemSelector": {"v.$": "$$.Map.Item.Value", "i.$": "$$.Map.Item.Index"},
        "ItemProcessor": {"StartAt": "t", "States": {"t": {"Type": "Task", "Resource": "function:f", "OutputPath": "$.v", "End": true}}}}}});
    let run = run(&machine, json!([5, 4, 3, 2, 1]), |request| {
        Some((request.parameters["v"].as_i64().unwrap() * 10, Ok(request.parameters.clone())))
    });
    assert_eq!(succeeded(&run), &json!([5, 4, 3, 2, 1]));
    // 5 and 4, then 3 beside 5, 2 beside 3, 1 beside 2.
    assert_eq!(run.took, 80);
}

#[test]
fn distributed_map_tolerates_failures_within_bounds() {
    let machine = |count: u64| {
        json!({"StartAt": "m", "States": {"m": {"Type": "Map", "End": true, "ToleratedFailureCount": count,
        "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "t",
            "States": {"t": {"Type": "Task", "Resource": "function:f", "End": true}}}}}})
    };
    let answer = |request: &TaskRequest| {
        Some((0, if request.parameters.as_i64() > Some(1) { Err(("Bad", "")) } else { Ok(json!("ok")) }))
    };
    let good = run(&machine(1), json!([0, 1, 2]), answer);
    assert_eq!(succeeded(&good)[0], "ok");
    let bad = run(&machine(1), json!([0, 2, 3]), answer);
    assert_eq!(failed(&bad).0, "States.ExceedToleratedFailureThreshold");
    assert!(
        !bad.kinds.iter().any(|kind| kind.starts_with("MapIteration") || kind.starts_with("Task")),
        "{:?}",
        bad.kinds
    );
}

#[test]
fn item_batcher_bounds_items_and_adds_input() {
    let machine = json!({"StartAt": "m", "States": {"m": {"Type": "Map", "End": true,
        "ItemBatcher": {"MaxItemsPerBatch": 2, "BatchInput": {"k": "v"}},
        "ItemProcessor": {"StartAt": "p", "States": {"p": {"Type": "Pass", "End": true}}}}}});
    let run = run(&machine, json!([1, 2, 3]), |_| None);
    assert_eq!(
        succeeded(&run),
        &json!([{"BatchInput": {"k": "v"}, "Items": [1, 2]}, {"BatchInput": {"k": "v"}, "Items": [3]}])
    );
}

#[test]
fn variables_of_a_branch_stay_in_it() {
    let machine = json!({"QueryLanguage": "JSONata", "StartAt": "a", "States": {
        "a": {"Type": "Pass", "Assign": {"x": 1}, "Next": "p"},
        "p": {"Type": "Parallel", "Next": "z", "Branches": [
            {"StartAt": "b", "States": {"b": {"Type": "Pass", "Assign": {"y": "{% $x + 1 %}"}, "Next": "c"},
                "c": {"Type": "Pass", "Output": "{% $x + $y %}", "End": true}}}]},
        "z": {"Type": "Pass", "Output": "{% [$states.input, $exists($y)] %}", "End": true}}});
    let run = run(&machine, json!({}), |_| None);
    assert_eq!(succeeded(&run), &json!([3, false]));
}

#[test]
fn jsonata_failures_are_query_evaluation_errors() {
    for (output, cause) in [
        (
            "{% $nothing %}",
            "The JSONata expression '$nothing' specified for the field 'Output' returned nothing (undefined).",
        ),
        ("{% function($x){$x} %}", "returned an unsupported result type."),
        ("{% 1 + 'a' %}", "threw an error during evaluation."),
        ("{% $eval('1') %}", "threw an error during evaluation."),
    ] {
        let machine = json!({"QueryLanguage": "JSONata", "StartAt": "a", "States": {"a": {"Type": "Pass", "Output": output, "End": true}}});
        let run = run(&machine, json!({}), |_| None);
        assert_eq!(failed(&run).0, "States.QueryEvaluationError");
        assert!(failed(&run).1.contains(cause), "{output}: {:?}", failed(&run));
    }
}

#[test]
fn choice_without_match_or_path_fails() {
    let machine = json!({"StartAt": "c", "States": {
        "c": {"Type": "Choice", "Choices": [{"Variable": "$.a", "StringMatches": "x*", "Next": "d"}]},
        "d": {"Type": "Succeed"}}});
    let missing = run(&machine, json!({}), |_| None);
    assert_eq!(failed(&missing).0, "States.Runtime");
    let unmatched = run(&machine, json!({"a": "y"}), |_| None);
    assert_eq!(failed(&unmatched).0, "States.Runtime");
    assert_eq!(succeeded(&run(&machine, json!({"a": "xyz"}), |_| None)), &json!({"a": "xyz"}));
}

#[test]
fn endless_loop_ends_with_the_event_limit() {
    let machine = json!({"StartAt": "a", "States": {"a": {"Type": "Pass", "Next": "a"}}});
    let run = run(&machine, json!({}), |_| None);
    assert!(failed(&run).1.contains("25000"), "{:?}", run.status);
}

#[test]
fn execution_timeout_and_stop_end_the_run() {
    let machine = json!({"StartAt": "w", "TimeoutSeconds": 3, "States": {"w": {"Type": "Wait", "Seconds": 10, "End": true}}});
    let timed = run(&machine, json!({}), |_| None);
    assert_eq!((timed.status, timed.took), (Status::TimedOut, 3000));
    let (mut execution, _) = Execution::start(definition(&machine), start(json!({})));
    execution.apply(&Event::Stopped { error: Some("E".into()), cause: None }, 1);
    assert!(matches!(execution.state.status, Status::Aborted { .. }));
}

#[test]
fn redrive_goes_on_from_the_failed_state() {
    let machine = json!({"StartAt": "a", "States": {
        "a": {"Type": "Pass", "Result": 1, "ResultPath": "$.a", "Next": "t"},
        "t": {"Type": "Task", "Resource": "function:f", "ResultPath": "$.t", "End": true}}});
    let (mut execution, commands) = Execution::start(definition(&machine), start(json!({})));
    let task = |commands: &[Command]| {
        commands
            .iter()
            .find_map(|command| match command {
                Command::ScheduleTask(request) => Some(request.task),
                _ => None,
            })
            .unwrap()
    };
    execution.apply(&Event::TaskFailed { task: task(&commands), error: "E".into(), cause: None }, 1);
    let commands = execution.apply(&Event::Redriven, 2);
    execution.apply(&Event::TaskSucceeded { task: task(&commands), output: json!(2) }, 3);
    assert_eq!(execution.state.status, Status::Succeeded { output: json!({"a": 1, "t": 2}) });
}

#[test]
fn chain_of_tasks_waits_once_for_each() {
    let machine = json!({"StartAt": "a", "States": {
        "a": {"Type": "Task", "Resource": "function:f", "Next": "b"}, "b": {"Type": "Pass", "Next": "c"},
        "c": {"Type": "Task", "Resource": "function:g", "Next": "d"}, "d": {"Type": "Succeed"}}});
    let run = run(&machine, json!({"n": 1}), |request| Some((1, Ok(request.parameters.clone()))));
    assert_eq!(run.events.len(), 2);
    assert_eq!(succeeded(&run), &json!({"n": 1}));
}

fn machine() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(
            json!({"Type": "Task", "Resource": "function:f", "Retry": [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 1, "JitterStrategy": "FULL"}]})
        ),
        Just(json!({"Type": "Pass", "Assign": {"x.$": "States.UUID()"}})),
        Just(json!({"Type": "Wait", "Seconds": 1})),
        Just(json!({"Type": "Task", "Resource": "function:g", "TimeoutSeconds": 3, "ResultPath": "$.r"})),
    ];
    let states = prop::collection::vec(leaf, 1..4);
    (states.clone(), prop::collection::vec(states, 1..3), any::<bool>()).prop_map(|(outer, branches, map)| {
        let mut counter = 0;
        let mut chain = |states: &[Value]| {
            let names: Vec<String> = states.iter().map(|_| { counter += 1; format!("s{counter}") }).collect();
            let mut all = serde_json::Map::new();
            for (at, state) in states.iter().enumerate() {
                let mut state = state.clone();
                match names.get(at + 1) {
                    Some(next) => state["Next"] = next.clone().into(),
                    None => state["End"] = true.into(),
                }
                all.insert(names[at].clone(), state);
            }
            json!({"StartAt": names[0], "States": all})
        };
        let inner: Vec<Value> = branches.iter().map(|branch| chain(branch)).collect();
        let composite = if map {
            json!({"Type": "Map", "ItemsPath": "$.items", "MaxConcurrency": 2, "ItemProcessor": inner[0], "ResultPath": "$.m", "Next": "after"})
        } else {
            json!({"Type": "Parallel", "Branches": inner, "ResultPath": "$.p", "Next": "after"})
        };
        let after = chain(&outer);
        let mut states = after["States"].as_object().unwrap().clone();
        states.insert("both".into(), composite);
        states.insert("after".into(), json!({"Type": "Pass", "Next": after["StartAt"]}));
        json!({"StartAt": "both", "States": states})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Replaying any prefix of the events gives the state that was, and going on from there, or from the state as
    /// text, ends the same.
    #[test]
    fn replay_of_any_prefix_continues_to_the_same_end(machine in machine(), fails in prop::collection::vec(any::<bool>(), 32)) {
        let mut asked = 0;
        let run = run(&machine, json!({"items": [1, 2, 3]}), |request| {
            asked += 1;
            let delay = 10 + (request.task as i64 * 7) % 50;
            Some((delay, if fails[asked % fails.len()] && asked % 3 == 0 { Err(("E", "c")) } else { Ok(json!({"items": [1]})) }))
        });
        prop_assert_ne!(&run.status, &Status::Running);
        let begin = || start(json!({"items": [1, 2, 3]}));
        for cut in 0..=run.events.len() {
            let (kept, rest) = run.events.split_at(cut);
            let replayed = Execution::replay(definition(&machine), begin(), kept);
            let text = serde_json::to_string(&replayed.state).unwrap();
            let state: State = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&state, &replayed.state);
            let mut resumed = Execution::resume(definition(&machine), state);
            for (time, event) in rest {
                resumed.apply(event, *time);
            }
            prop_assert_eq!(&resumed.state.status, &run.status);
        }
    }

    /// Events that nobody waits for change nothing.
    #[test]
    fn stray_events_change_nothing(machine in machine(), id in 1000u64..2000) {
        let (mut execution, _) = Execution::start(definition(&machine), start(json!({"items": [1]})));
        let before = execution.state.clone();
        for event in [
            Event::TaskSucceeded { task: id, output: json!(1) },
            Event::TaskFailed { task: id, error: "E".into(), cause: None },
            Event::TimerFired { timer: id },
            Event::TaskHeartbeat { task: id },
            Event::TaskSubmitted { task: id, output: json!(1) },
        ] {
            prop_assert!(execution.apply(&event, 5).is_empty());
        }
        prop_assert_eq!(before, execution.state);
    }

    /// No text makes the readers panic.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}", path in "\\$[\\[\\].a-z0-9'?@()=<>*:&|!-]{0,24}", call in "States\\.[A-Za-z]{0,12}\\([^)]{0,20}\\)?") {
        let _ = Definition::from_text(&text, MachineType::Standard);
        let _ = minik8s_asl::path::Path::parse(&text);
        if let Ok(path) = minik8s_asl::path::Path::parse(&path) {
            let _ = path.find(&json!({"a": [{"b": 1}, "x"]}));
        }
        let _ = minik8s_asl::intrinsic::Call::parse(&call);
        let _ = minik8s_asl::timestamp::Timestamp::parse(&text);
    }
}
