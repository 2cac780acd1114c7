//! Scenarios of behave-asl: one state at a time, written by people from the specification.

use std::collections::BTreeMap;
use std::sync::Arc;

use minik8s_asl::definition::{Definition, MachineType};
use minik8s_asl::engine::{Command, Event, Execution, Identity, Start, Status, TaskRequest, Waiting};
use minik8s_asl::path::Path;
use serde_json::{Map, Value, json};

use crate::{Tally, read};

#[test]
#[ignore = "the recorded cases are not in this repository: ASL_CASES=DIR and --ignored"]
fn behave_scenarios_hold() {
    let cases = read("behave-asl.json");
    let mut tally = Tally::new("behave-asl.json");
    let mut skipped = BTreeMap::<String, usize>::new();
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        match scenario(case) {
            Ok(()) => {
                tally.count(id, Ok(()));
            }
            Err(Trouble::Step(step)) => *skipped.entry(step).or_default() += 1,
            Err(Trouble::Wrong(reason)) => {
                tally.count(id, Err(reason));
            }
        }
    }
    println!("behave-asl.json: skipped for steps that are not understood: {skipped:?}");
    // The rest contradicts AWS: comparisons the other way round, definitions with both Next and End.
    Tally::end_all(&[tally], &[75.0]);
}

enum Trouble {
    /// A step about behave-asl itself.
    Step(String),
    Wrong(String),
}

/// What a scenario has said so far.
#[derive(Default)]
struct World {
    definition: Value,
    input: Option<Value>,
    at: Option<String>,
    variables: Map<String, Value>,
    answers: Vec<Answer>,
    /// What came out.
    output: Value,
    next: Option<String>,
    ended: Option<Status>,
    assigned: Map<String, Value>,
    waited: Option<i64>,
    refused: bool,
    started: bool,
}

struct Answer {
    resource: String,
    with: Option<Value>,
    event: Result<Value, String>,
    used: bool,
}

fn scenario(case: &Value) -> Result<(), Trouble> {
    let mut world = World::default();
    for step in case["steps"].as_array().unwrap() {
        let text = step["step"].as_str().unwrap();
        let text = ["Given ", "When ", "Then ", "And "]
            .iter()
            .find_map(|word| text.strip_prefix(word))
            .unwrap_or(text);
        let body = match (step.get("json"), step.get("text").and_then(Value::as_str)) {
            (Some(json), _) => json.to_string(),
            (None, text) => text.unwrap_or_default().to_owned(),
        };
        world.step(text.trim().trim_end_matches(':'), &body)?;
    }
    Ok(())
}

impl World {
    fn step(&mut self, text: &str, body: &str) -> Result<(), Trouble> {
        let quoted: Vec<&str> = text.split('"').skip(1).step_by(2).collect();
        let plain: String = text.split('"').step_by(2).collect::<Vec<_>>().join("\"");
        let json = || {
            serde_json::from_str::<Value>(body).map_err(|error| Trouble::Step(format!("{error} in {text}")))
        };
        match plain.trim() {
            "a state machine defined by" | "an invalid state machine defined by" => {
                self.definition = serde_json::from_str(body)
                    .map_err(|_| Trouble::Step("a definition that is no JSON".into()))?;
            }
            "the current state data is" | "the execution input is" => self.input = Some(json()?),
            "the current variables are" => self.variables = json()?.as_object().cloned().unwrap_or_default(),
            "the state machine is current at the state \"" => self.at = Some(quoted[0].to_owned()),
            "the resource \" will be called with any parameters and fail with error \"" => {
                self.answers.push(Answer {
                    resource: quoted[0].into(),
                    with: None,
                    event: Err(quoted[1].into()),
                    used: false,
                });
            }
            "the resource \" will be called with any parameters and return"
            | "the resource \" will return" => {
                self.answer(quoted[0], None, json()?);
            }
            "the resource \" will be called with" => {
                self.answers.push(Answer {
                    resource: quoted[0].into(),
                    with: Some(json()?),
                    event: Ok(Value::Null),
                    used: false,
                });
            }
            "the state machine executes" => self.execute().map_err(Trouble::Wrong)?,
            "the state machine failed to compile" => self.expect(self.refused, "was accepted")?,
            "the next state is \"" => {
                self.expect(
                    self.next.as_deref() == Some(quoted[0]),
                    &format!("went to {:?}, {:?}", self.next, self.ended),
                )?;
            }
            "the execution ended" => self.expect(self.ended.is_some(), "did not end")?,
            "the execution succeeded" => {
                self.expect(
                    matches!(self.ended, Some(Status::Succeeded { .. })),
                    &format!("{:?}", self.ended),
                )?;
            }
            "the execution failed" => {
                self.expect(matches!(self.ended, Some(Status::Failed { .. })), &format!("{:?}", self.ended))?;
            }
            "the execution error was null" => self.failure(|error, _| error.is_none())?,
            "the execution error cause was null" => {
                self.failure(|_, cause| cause.is_none() || cause.as_deref() == Some("cause"))?
            }
            "the execution error was \"" => self.failure(|error, _| error.as_deref() == Some(quoted[0]))?,
            "the execution error cause was \"" => {
                self.failure(|_, cause| cause.as_deref() == Some(quoted[0]))?
            }
            "the step result data is" => {
                let wanted = json()?;
                self.expect(
                    minik8s_asl::values::equal(&wanted, &self.output),
                    &format!("gave {} not {wanted}", self.output),
                )?;
            }
            "the last state waited for \" seconds" => {
                let seconds = quoted[0].parse::<i64>().unwrap_or(-1);
                self.expect(self.waited == Some(seconds * 1000), &format!("waited {:?}", self.waited))?;
            }
            _ if plain.contains("step result data path \"") => {
                self.path(&plain, &quoted, &self.output.clone())?
            }
            _ if plain.contains("variable path \"") => {
                let assigned = Value::Object(self.assigned.clone());
                let path =
                    quoted[0].strip_prefix('$').map_or(quoted[0].to_owned(), |rest| format!("$.{rest}"));
                let mut quoted = quoted.clone();
                quoted[0] = &path;
                self.path(&plain, &quoted, &assigned)?;
            }
            _ => return Err(Trouble::Step(plain)),
        }
        Ok(())
    }

    fn answer(&mut self, resource: &str, with: Option<Value>, value: Value) {
        // "will be called with" comes before "will return".
        if let Some(answer) = self
            .answers
            .iter_mut()
            .rev()
            .find(|answer| answer.resource == resource && answer.event == Ok(Value::Null))
        {
            answer.event = Ok(value);
            return;
        }
        self.answers.push(Answer { resource: resource.into(), with, event: Ok(value), used: false });
    }

    fn expect(&self, good: bool, otherwise: &str) -> Result<(), Trouble> {
        if good { Ok(()) } else { Err(Trouble::Wrong(otherwise.to_owned())) }
    }

    fn failure(&self, good: impl Fn(&Option<String>, &Option<String>) -> bool) -> Result<(), Trouble> {
        match &self.ended {
            Some(Status::Failed { error, cause }) => {
                self.expect(good(error, cause), &format!("{error:?} {cause:?}"))
            }
            other => Err(Trouble::Wrong(format!("{other:?}"))),
        }
    }

    fn path(&self, plain: &str, quoted: &[&str], data: &Value) -> Result<(), Trouble> {
        let found = Path::parse(quoted[0]).map_err(|invalid| Trouble::Step(invalid.0))?.find(data).ok();
        let shown = format!("{:?} at {} in {data}", found, quoted[0]);
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let good = match plain.rsplit("path \"").next().unwrap_or_default().trim() {
            "is a string" => found.as_ref().is_some_and(Value::is_string),
            "is an int" => found.as_ref().is_some_and(Value::is_i64),
            "is a list" => found.as_ref().is_some_and(Value::is_array),
            "is true" => found == Some(json!(true)),
            "is false" => found == Some(json!(false)),
            "does not exist" => found.is_none(),
            "matches \"" => found.as_ref().is_some_and(|value| {
                text(value) == quoted[1] || value.as_f64().is_some_and(|a| quoted[1].parse() == Ok(a))
            }),
            "contains \"" => match &found {
                Some(Value::Array(items)) => items.iter().any(|item| text(item) == quoted[1]),
                Some(Value::String(text)) => text.contains(quoted[1]),
                Some(Value::Object(object)) => object.contains_key(quoted[1]),
                _ => false,
            },
            "has length \"" => match &found {
                Some(Value::Array(items)) => Ok(items.len()) == quoted[1].parse(),
                Some(Value::String(text)) => Ok(text.chars().count()) == quoted[1].parse(),
                _ => false,
            },
            "has \" entries" => {
                matches!(&found, Some(Value::Array(items)) if Ok(items.len()) == quoted[1].parse())
            }
            other => return Err(Trouble::Step(other.to_owned())),
        };
        self.expect(good, &shown)
    }

    /// Runs the current state, and stops where it leads to.
    fn execute(&mut self) -> Result<(), String> {
        let name = match self.at.clone().or(self.next.clone()) {
            Some(name) => name,
            None => self.definition["StartAt"].as_str().unwrap_or_default().to_owned(),
        };
        if self.definition["States"][&name].is_null() {
            self.refused = true;
            return Ok(());
        }
        let checked = match self.started {
            false => Definition::from_value(&self.definition, MachineType::Standard).map(|_| ()),
            true => Ok(()),
        };
        let definition = match checked.and_then(|()| Definition::of_state(&self.only(&name), &name)) {
            Ok(definition) => definition,
            Err(diagnostics) => {
                self.refused = true;
                if std::env::var("ONLY").is_ok() {
                    println!("{diagnostics}");
                }
                return if diagnostics.0.iter().all(|one| one.code == "MISSING_TRANSITION_TARGET") {
                    Err(diagnostics.to_string())
                } else {
                    Ok(())
                };
            }
        };
        self.started = true;
        self.at = None;
        let input = match (&self.output, self.next.is_some()) {
            (output, true) => output.clone(),
            _ => self.input.clone().unwrap_or(json!({})),
        };
        self.run(definition, input);
        Ok(())
    }

    /// The definition with everything but the state leading to its end.
    fn only(&self, name: &str) -> Value {
        let mut definition = self.definition.clone();
        if let Some(states) = definition["States"].as_object_mut() {
            for (other, state) in states.iter_mut() {
                if other != name {
                    *state = json!({"Type": "Succeed"});
                }
            }
        }
        definition
    }

    fn run(&mut self, definition: Definition, input: Value) {
        let identity =
            Identity { execution_name: "run".into(), machine_name: "machine".into(), ..Identity::default() };
        let start = Start { identity, input, time: 1_700_000_000_000, seed: 1 };
        let time = start.time;
        let (mut execution, mut commands) = Execution::start(Arc::new(definition), start);
        let (mut agenda, mut order, mut now) = (BTreeMap::new(), 0, time);
        let mut history = execution.take_history();
        loop {
            for command in std::mem::take(&mut commands) {
                order += 1;
                match command {
                    Command::ScheduleTask(request) => {
                        let event = self.call(&request);
                        agenda.insert((now + 1, order), event);
                    }
                    Command::StartTimer { timer, at } => {
                        agenda.insert((at, order), Event::TimerFired { timer });
                    }
                    _ => {}
                }
            }
            let Some(((at, _), event)) = agenda.pop_first() else { break };
            // Trying again is a step of its own there.
            if execution.waits().iter().any(|waiting| matches!(waiting, Waiting::Retry { .. })) {
                self.ended = None;
                self.next = Some(current(&execution));
                return;
            }
            if history
                .first()
                .is_some_and(|_| self.definition["States"][current(&execution)]["Type"] == "Wait")
            {
                self.waited = Some(at - now);
            }
            now = now.max(at);
            commands = execution.apply(&event, now);
            history.extend(execution.take_history());
        }
        // The first state that was left, and the one that was entered after it.
        let left = history
            .iter()
            .rposition(|event| event.kind.ends_with("StateExited") && event.kind != "SucceedStateExited");
        let entered: Vec<&str> = history
            .iter()
            .skip(left.map_or(0, |at| at))
            .filter(|event| event.kind.ends_with("StateEntered"))
            .filter_map(|event| event.details.get("name").and_then(Value::as_str))
            .collect();
        self.ended = None;
        self.next = None;
        match (left, entered.first()) {
            (Some(left), Some(next)) => {
                self.next = Some((*next).to_owned());
                self.output = history[left].details["output"].clone();
            }
            _ => {
                self.output = match &execution.state.status {
                    Status::Succeeded { output } => output.clone(),
                    _ => Value::Null,
                };
                self.ended = Some(execution.state.status.clone());
            }
        }
        for event in &history {
            if let Some(Value::Object(assigned)) = event.details.get("assignedVariables") {
                self.assigned.extend(assigned.iter().map(|(name, text)| {
                    (
                        name.clone(),
                        serde_json::from_str(text.as_str().unwrap_or_default()).unwrap_or_default(),
                    )
                }));
            }
        }
    }

    fn call(&mut self, request: &TaskRequest) -> Event {
        let task = request.task;
        let found =
            self.answers.iter_mut().find(|answer| !answer.used && answer.resource == request.resource);
        match found {
            Some(answer) => {
                if let Some(with) = &answer.with
                    && !minik8s_asl::values::equal(with, &request.parameters)
                {
                    return Event::TaskFailed {
                        task,
                        error: format!("called with {}", request.parameters),
                        cause: None,
                    };
                }
                match &answer.event {
                    Ok(value) => Event::TaskSucceeded { task, output: value.clone() },
                    Err(error) => {
                        Event::TaskFailed { task, error: error.clone(), cause: Some("cause".into()) }
                    }
                }
            }
            None => Event::TaskSucceeded { task, output: Value::Null },
        }
    }
}

fn current(execution: &Execution) -> String {
    execution.current_states().first().map(|state| (*state).to_owned()).unwrap_or_default()
}
