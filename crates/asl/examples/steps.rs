//! How many steps a second the pure engine makes: `cargo run --release -p minik8s-asl --example steps`.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use minik8s_asl::definition::{Definition, MachineType};
use minik8s_asl::engine::{Command, Event, Execution, Identity, Start, Status};
use serde_json::{Value, json};

fn main() {
    let chain = json!({"StartAt": "a", "States": {
        "a": {"Type": "Task", "Resource": "function:f", "Next": "b"},
        "b": {"Type": "Task", "Resource": "function:f", "Next": "c"},
        "c": {"Type": "Choice", "Choices": [{"Variable": "$.n", "NumericGreaterThan": 3, "Next": "d"}], "Default": "e"},
        "d": {"Type": "Task", "Resource": "function:f", "Parameters": {"n.$": "$.n", "m": 1}, "Next": "e"},
        "e": {"Type": "Pass", "End": true}}});
    let jsonata = json!({"QueryLanguage": "JSONata", "StartAt": "a", "States": {
        "a": {"Type": "Task", "Resource": "function:f", "Arguments": {"n": "{% $states.input.n + 1 %}"}, "Next": "b"},
        "b": {"Type": "Choice", "Choices": [{"Condition": "{% $states.input.n > 3 %}", "Next": "c"}], "Default": "d"},
        "c": {"Type": "Pass", "Assign": {"total": "{% $sum([$states.input.n, 2]) %}"}, "Next": "d"},
        "d": {"Type": "Task", "Resource": "function:f", "Arguments": {"n": "{% $total %}"}, "End": true}}});
    let map = json!({"StartAt": "m", "States": {"m": {"Type": "Map", "ItemsPath": "$.items", "End": true,
        "ItemProcessor": {"StartAt": "t", "States": {"t": {"Type": "Task", "Resource": "function:f", "End": true}}}}}});
    for (name, definition, states) in
        [("JSONPath chain", chain, 5), ("JSONata chain", jsonata, 4), ("map of ten", map, 11)]
    {
        let definition = Arc::new(Definition::from_value(&definition, MachineType::Standard).unwrap());
        let (runs, begun) = (20_000, Instant::now());
        let mut state_bytes = 0;
        for seed in 0..runs {
            state_bytes = run(&definition, seed).max(state_bytes);
        }
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{name}: {:.0} runs/s, {:.0} states/s, state at the last wait {state_bytes} bytes",
            runs as f64 / seconds,
            (runs * states) as f64 / seconds
        );
    }
}

fn run(definition: &Arc<Definition>, seed: u64) -> usize {
    let input = json!({"n": 5, "items": (0..10).collect::<Vec<i32>>()});
    let start = Start { identity: Identity::default(), input, time: 0, seed };
    let (mut execution, mut commands) = Execution::start(definition.clone(), start);
    let mut bytes = 0;
    let mut time = 0;
    while execution.state.status == Status::Running {
        if seed == 0 {
            bytes = serde_json::to_vec(&execution.state).unwrap().len();
        }
        let tasks: Vec<(u64, Value)> = commands
            .iter()
            .filter_map(|command| match command {
                Command::ScheduleTask(request) => Some((request.task, request.parameters.clone())),
                _ => None,
            })
            .collect();
        commands.clear();
        for (task, output) in tasks {
            time += 1;
            commands.extend(execution.apply(&Event::TaskSucceeded { task, output }, time));
            execution.take_history();
        }
    }
    bytes
}
