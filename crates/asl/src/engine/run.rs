//! Entering states and doing what they do.

use serde_json::{Map, Value};

use super::context::Extra;
use super::thread::{Children, Place, Thread, Waiting};
use super::{Execution, seconds_to_milliseconds};
use crate::choose;
use crate::definition::{Kind, Language, NumberField, State, TextField, Transition, Wait};
use crate::evaluate::Scope;
use crate::failure::{self, Failure};
use crate::timestamp::Timestamp;

/// What a state wants, once its fields are computed.
pub(super) enum Step {
    Result(Value),
    Chosen { next: String, output: Value, assigned: Map<String, Value> },
    WaitUntil(i64),
    Succeed(Value),
    Fail(Failure),
    Task,
    Parallel { branches: Vec<String>, input: Value },
    Map,
}

/// Values in between, for whoever inspects a single state.
pub(super) type Notes = Vec<(&'static str, Value)>;

impl Execution {
    /// Enters the state that `thread` is at.
    pub(super) fn advance(&mut self, id: u64) {
        let Some(thread) = self.state.threads.get(&id) else { return };
        let Some(state) = self.machine(thread).and_then(|machine| machine.states.get(&thread.state)) else {
            let cause = format!("The state '{}' does not exist.", thread.state);
            self.thread_failed(id, Failure::new(failure::RUNTIME, cause));
            return;
        };
        let kind = format!("{}StateEntered", state.kind.name());
        let (name, input) = (thread.state.clone(), thread.input.clone());
        let entered = self.tell(id, &kind, |details, _| {
            details.insert("name".into(), name.into());
            details.insert("input".into(), input);
        });
        let now = self.now;
        if let Some(thread) = self.state.threads.get_mut(&id) {
            thread.entered = entered;
            thread.entered_time = now;
            thread.retries.clear();
            thread.retry_count = 0;
        }
        self.attempt(id);
    }

    /// Does what the state does, for the first time or again.
    pub(super) fn attempt(&mut self, id: u64) {
        if let Err(failure) = self.execute(id) {
            self.state_failed(id, failure);
        }
    }

    fn execute(&mut self, id: u64) -> Result<(), Failure> {
        let Some(thread) = self.state.threads.get_mut(&id) else { return Ok(()) };
        thread.waiting = Waiting::Nothing;
        let input = thread.input.clone();
        let now = self.now;
        let prepared = self.scoped(id, &input, Extra::default(), |scope, state| {
            let mut notes = Notes::new();
            prepare(scope, state, &input, now, &mut notes).map(|step| (step, notes))
        });
        let Some(prepared) = prepared else { return Ok(()) };
        let (step, notes) = prepared?;
        self.note(notes);
        match step {
            Step::Result(result) => self.state_succeeded(id, result),
            Step::Chosen { next, output, assigned } => {
                self.exit(id, output, assigned, Transition::Next(next))
            }
            Step::WaitUntil(at) => {
                if at <= now {
                    self.wait_over(id);
                } else {
                    let timer = self.start_timer(at);
                    self.wait(id, Waiting::Wait { timer });
                }
                Ok(())
            }
            Step::Succeed(output) => self.exit(id, output, Map::new(), Transition::End),
            Step::Fail(failure) => {
                self.thread_failed(id, failure);
                Ok(())
            }
            Step::Task => self.schedule_task(id, &input),
            Step::Parallel { branches, input } => {
                self.start_branches(id, branches, &input);
                Ok(())
            }
            Step::Map => self.start_map(id, &input),
        }
    }

    pub(super) fn wait(&mut self, id: u64, waiting: Waiting) {
        if let Some(thread) = self.state.threads.get_mut(&id) {
            thread.waiting = waiting;
        }
    }

    pub(super) fn note(&mut self, notes: Notes) {
        if let Some(inspection) = &mut self.inspection {
            inspection.values.extend(notes.into_iter().map(|(key, value)| (key.to_owned(), value)));
        }
    }

    /// A Wait state's time has come: its input goes on.
    pub(super) fn wait_over(&mut self, id: u64) {
        let Some(thread) = self.state.threads.get_mut(&id) else { return };
        thread.waiting = Waiting::Nothing;
        let input = thread.input.clone();
        let selected = self.scoped(id, &input, Extra::default(), |scope, state| {
            scope.select(&state.input_path, input.clone())
        });
        let done = match selected {
            Some(Ok(effective)) => self.state_succeeded(id, effective),
            Some(Err(failure)) => Err(failure),
            None => Ok(()),
        };
        if let Err(failure) = done {
            self.state_failed(id, failure);
        }
    }

    fn start_branches(&mut self, id: u64, starts: Vec<String>, input: &Value) {
        if self.inspection.is_some() {
            return;
        }
        self.tell(id, "ParallelStateStarted", |_, _| {});
        let children = Children {
            results: vec![None; starts.len()],
            done: 0,
            running: starts.len(),
            failed: 0,
            items: Vec::new(),
            most: starts.len(),
            input: Value::Null,
            tolerated_count: None,
            tolerated_percentage: None,
        };
        self.wait(id, Waiting::Children(Box::new(children)));
        for (branch, start) in starts.into_iter().enumerate() {
            self.spawn(id, branch, branch, start, input.clone(), None, false);
        }
    }

    /// A thread below `parent`, ready to enter its first state.
    #[expect(clippy::too_many_arguments, reason = "every part of a thread that differs")]
    pub(super) fn spawn(
        &mut self,
        parent: u64,
        index: usize,
        branch: usize,
        start: String,
        input: Value,
        item: Option<Value>,
        detached: bool,
    ) {
        let Some(outer) = self.state.threads.get(&parent) else { return };
        let mut place = outer.place.clone();
        place.push(Place { state: outer.state.clone(), branch });
        let mut thread = Thread::new(Some(parent), index, place, start, input);
        thread.item = item;
        thread.detached = detached;
        let id = self.id();
        self.state.threads.insert(id, thread);
        self.ready.push_back(id);
    }
}

/// Computes what the state's kind needs before it does anything.
fn prepare(
    scope: &mut Scope<'_>,
    state: &State,
    input: &Value,
    now: i64,
    notes: &mut Notes,
) -> Result<Step, Failure> {
    let effective = scope.select(&state.input_path, input.clone())?;
    let path = state.language == Language::JsonPath;
    if path {
        notes.push(("afterInputPath", effective.clone()));
    }
    Ok(match &state.kind {
        Kind::Pass { result } => {
            let given = match &state.parameters {
                Some(parameters) => scope.template(parameters, &effective)?,
                None => effective,
            };
            if path {
                notes.push(("afterParameters", given.clone()));
            }
            if let Some(result) = result {
                notes.push(("result", result.clone()));
            }
            Step::Result(result.clone().unwrap_or(given))
        }
        Kind::Task(_) => Step::Task,
        Kind::Choice { .. } => choose(scope, state, input, effective)?,
        Kind::Wait(wait) => Step::WaitUntil(until(scope, wait, &effective, now)?),
        Kind::Succeed => {
            let output = match &state.output {
                Some(output) => scope.template(output, &effective)?,
                None => scope.select(&state.output_path, effective)?,
            };
            Step::Succeed(output)
        }
        Kind::Fail { error, cause } => {
            let mut text = |field: &Option<TextField>, name: &str| {
                field.as_ref().map(|field| scope.text(field, name, &effective)).transpose()
            };
            let (error, cause) = (text(error, "Error")?, text(cause, "Cause")?);
            Step::Fail(Failure::reported(error, cause))
        }
        Kind::Parallel { branches } => {
            let input = match &state.parameters {
                Some(parameters) => scope.template(parameters, &effective)?,
                None => effective,
            };
            Step::Parallel {
                branches: branches.iter().map(|branch| branch.start_at.clone()).collect(),
                input,
            }
        }
        Kind::Map(_) => Step::Map,
    })
}

fn choose(scope: &mut Scope<'_>, state: &State, input: &Value, effective: Value) -> Result<Step, Failure> {
    let Kind::Choice { rules, default } = &state.kind else {
        return Err(Failure::runtime("The state is no Choice."));
    };
    let mut chosen = None;
    for rule in rules {
        if choose::holds(&rule.condition, scope, &effective)? {
            chosen = Some(rule);
            break;
        }
    }
    let (next, assign, output) = match (chosen, default) {
        (Some(rule), _) => (&rule.next, &rule.assign, rule.output.as_ref().or(state.output.as_ref())),
        (None, Some(default)) => (default, &state.assign, state.output.as_ref()),
        (None, None) => {
            return Err(Failure::runtime(
                "Failed to transition out of the state. The state does not point to a next state.",
            ));
        }
    };
    let mut assigned = Map::new();
    for (name, template) in assign {
        assigned.insert(name.clone(), scope.template(template, &effective)?);
    }
    let output = match output {
        Some(output) => scope.template(output, &effective)?,
        None if state.language == Language::Jsonata => input.clone(),
        None => scope.select(&state.output_path, effective)?,
    };
    Ok(Step::Chosen { next: next.clone(), output, assigned })
}

/// When a Wait state ends.
fn until(scope: &mut Scope<'_>, wait: &Wait, effective: &Value, now: i64) -> Result<i64, Failure> {
    match wait {
        Wait::Seconds(NumberField::Query(query)) => {
            let value = scope.path_field(query, effective)?;
            let shown = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match value.as_i64() {
                Some(seconds) if seconds >= 0 => {
                    Ok(now.saturating_add(seconds_to_milliseconds(seconds as f64)))
                }
                Some(_) => Err(Failure::runtime(format!(
                    "The SecondsPath parameter references a negative value: {} == {}",
                    query.text(),
                    shown()
                ))),
                None => Err(Failure::runtime(format!(
                    "The SecondsPath parameter cannot be parsed as a long value: {} == {}",
                    query.text(),
                    shown()
                ))),
            }
        }
        Wait::Seconds(field) => {
            let seconds = scope.integer(field, "Seconds", effective)?;
            if seconds < 0 {
                return Err(Failure::query(
                    "Seconds",
                    format!("The Seconds field cannot be negative: {seconds}"),
                ));
            }
            Ok(now.saturating_add(seconds_to_milliseconds(seconds as f64)))
        }
        Wait::Timestamp(TextField::Query(query)) => {
            let value = scope.path_field(query, effective)?;
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Timestamp::parse(&shown).map(|time| time.milliseconds).ok_or_else(|| {
                Failure::runtime(format!(
                    "The TimestampPath parameter does not reference a valid ISO-8601 extended offset date-time \
                     format string: {} == {shown}",
                    query.text()
                ))
            })
        }
        Wait::Timestamp(field) => {
            let text = scope.text(field, "Timestamp", effective)?;
            Timestamp::parse(&text).map(|time| time.milliseconds).ok_or_else(|| {
                Failure::query(
                    "Timestamp",
                    format!(
                        "The Timestamp field cannot be parsed as an ISO-8601 extended offset date-time format \
                         string: {text}"
                    ),
                )
            })
        }
    }
}
