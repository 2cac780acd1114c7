//! Leaving states: results on their way out, retries, catchers, and the end of threads.

use serde_json::{Map, Value, json};

use super::context::Extra;
use super::run::Notes;
use super::thread::Waiting;
use super::{Command, Execution, LARGEST_PAYLOAD, ROOT, Status, history, seconds_to_milliseconds};
use crate::definition::{Kind, Language, Placement, State, Transition};
use crate::evaluate::Scope;
use crate::failure::{self, Failure};
use crate::values;

impl Execution {
    /// The state has its result.
    pub(super) fn state_succeeded(&mut self, id: u64, result: Value) -> Result<(), Failure> {
        let Some(thread) = self.state.threads.get_mut(&id) else { return Ok(()) };
        let input = thread.input.clone();
        let extra = Extra { result: Some(&result), ..Extra::default() };
        let done = self.scoped(id, &input, extra, |scope, state| leave(scope, state, &input, &result));
        let Some(done) = done else { return Ok(()) };
        let (output, assigned, transition, notes) = done?;
        self.note(notes);
        self.exit(id, output, assigned, transition)
    }

    /// Leaves the state with its output.
    pub(super) fn exit(
        &mut self,
        id: u64,
        output: Value,
        assigned: Map<String, Value>,
        transition: Transition,
    ) -> Result<(), Failure> {
        let Some(thread) = self.state.threads.get(&id) else { return Ok(()) };
        let name = thread.state.clone();
        if let Some(inspection) = &mut self.inspection {
            inspection.left(&output, &transition);
        }
        if values::size(&output) > LARGEST_PAYLOAD {
            return Err(Failure::new(
                failure::DATA_LIMIT_EXCEEDED,
                format!(
                    "The state/task '{name}' returned a result with a size exceeding the maximum number of bytes service limit."
                ),
            ));
        }
        let Some(state) = self.machine(thread).and_then(|machine| machine.states.get(&name)) else {
            return Ok(());
        };
        let kind = format!("{}StateExited", state.kind.name());
        self.tell(id, &kind, |details, _| {
            details.insert("name".into(), name.into());
            details.insert("output".into(), output.clone());
            if !assigned.is_empty() {
                let texts: Map<String, Value> =
                    assigned.iter().map(|(name, value)| (name.clone(), value.to_string().into())).collect();
                details.insert("assignedVariables".into(), Value::Object(texts));
                details.insert("assignedVariablesDetails".into(), json!({"truncated": false}));
            }
        });
        let Some(thread) = self.state.threads.get_mut(&id) else { return Ok(()) };
        thread.variables.extend(assigned);
        match transition {
            Transition::Next(next) => {
                thread.state = next;
                thread.input = output;
                self.ready.push_back(id);
            }
            Transition::End => self.thread_done(id, output),
        }
        Ok(())
    }

    /// The state failed: it is tried again, caught, or its thread fails.
    pub(super) fn state_failed(&mut self, id: u64, failure: Failure) {
        self.abort_children(id);
        let Some(thread) = self.state.threads.get(&id) else { return };
        let name = thread.state.clone();
        // Whoever tests a single state knows which one it is.
        let failure = if self.inspection.is_some() { failure } else { failure.named(&name, thread.entered) };
        if let Some(inspection) = &mut self.inspection {
            inspection.failure = Some(failure.clone());
        }
        if let Some(location) = failure.location.clone() {
            let failure = failure.clone();
            self.tell(id, "EvaluationFailed", |details, _| {
                history::put(details, "error", failure.error);
                history::put(details, "cause", failure.cause);
                details.insert("location".into(), location.into());
                details.insert("state".into(), name.into());
            });
        }
        if self.retry(id, &failure) {
            return;
        }
        let kind = self.state_of(id).map_or("", |state| match state.kind {
            Kind::Parallel { .. } => "ParallelStateFailed",
            Kind::Map(_) => "MapStateFailed",
            _ => "",
        });
        if !kind.is_empty() && failure.error.as_deref() != Some(failure::RUNTIME) {
            let failure = failure.clone();
            self.tell(id, kind, |details, _| {
                history::put(details, "error", failure.error);
                history::put(details, "cause", failure.cause);
            });
        }
        match self.catch(id, &failure) {
            None => self.thread_failed(id, failure),
            Some(Ok(())) => {}
            Some(Err(failure)) => {
                let Some(thread) = self.state.threads.get(&id) else { return };
                let failure = failure.named(&thread.state, thread.entered);
                self.thread_failed(id, failure);
            }
        }
    }

    fn state_of(&self, id: u64) -> Option<&State> {
        let thread = self.state.threads.get(&id)?;
        self.machine(thread)?.states.get(&thread.state)
    }

    fn retry(&mut self, id: u64, failure: &Failure) -> bool {
        let Some(state) = self.state_of(id) else { return false };
        let found = state.retry.iter().enumerate().find(|(_, retrier)| failure.matches(&retrier.errors));
        let Some((at, retrier)) = found.map(|(at, retrier)| (at, retrier.clone())) else { return false };
        let retriers = state.retry.len();
        let Some(thread) = self.state.threads.get_mut(&id) else { return false };
        thread.retries.resize(retriers, 0);
        let used = thread.retries[at];
        self.note(vec![("retryIndex", at.into())]);
        if used >= retrier.most {
            return false;
        }
        let Some(thread) = self.state.threads.get_mut(&id) else { return false };
        thread.retries[at] += 1;
        thread.retry_count += 1;
        let mut delay = retrier.interval * retrier.rate.powi(used.min(1000) as i32);
        delay = delay.min(retrier.longest.unwrap_or(31_622_400.0));
        self.note(vec![("retryBackoffIntervalSeconds", values::number(delay))]);
        if retrier.jitter {
            delay *= self.state.random.fraction();
        }
        let timer = self.start_timer(self.now.saturating_add(seconds_to_milliseconds(delay)));
        self.wait(id, Waiting::Retry { timer });
        true
    }

    pub(super) fn retry_now(&mut self, id: u64) {
        self.attempt(id);
    }

    fn catch(&mut self, id: u64, failure: &Failure) -> Option<Result<(), Failure>> {
        let state = self.state_of(id)?;
        let at = state.catch.iter().position(|catcher| failure.matches(&catcher.errors))?;
        self.note(vec![("catchIndex", at.into())]);
        let input = self.state.threads.get(&id)?.input.clone();
        let error = failure.output();
        let extra = Extra { error_output: Some(&error), ..Extra::default() };
        let caught = self.scoped(id, &input, extra, |scope, state| {
            let catcher = &state.catch[at];
            let mut assigned = Map::new();
            for (name, template) in &catcher.assign {
                assigned.insert(name.clone(), scope.template(template, &error)?);
            }
            let output = match (&catcher.output, state.language) {
                (Some(output), _) => scope.template(output, &error)?,
                (None, Language::Jsonata) => error.clone(),
                (None, Language::JsonPath) => place(&catcher.result_path, &input, error.clone())?,
            };
            Ok((output, assigned, Transition::Next(catcher.next.clone())))
        })?;
        Some(caught.and_then(|(output, assigned, transition)| self.exit(id, output, assigned, transition)))
    }

    fn thread_done(&mut self, id: u64, output: Value) {
        let Some(thread) = self.state.threads.get(&id) else { return };
        match thread.parent {
            None => {
                self.tell(id, "ExecutionSucceeded", |details, _| {
                    details.insert("output".into(), output.clone());
                });
                self.state.threads.remove(&ROOT);
                self.complete(Status::Succeeded { output });
            }
            Some(parent) => self.child_succeeded(parent, id, output),
        }
    }

    pub(super) fn thread_failed(&mut self, id: u64, failure: Failure) {
        match self.state.threads.get(&id).map(|thread| thread.parent) {
            None => {}
            Some(None) => self.fail_run(failure),
            Some(Some(parent)) => self.child_failed(parent, id, failure),
        }
    }

    /// Stops waiting: timers are called off.
    pub(super) fn release(&mut self, id: u64) {
        let Some(thread) = self.state.threads.get_mut(&id) else { return };
        let timers = match std::mem::replace(&mut thread.waiting, Waiting::Nothing) {
            Waiting::Wait { timer } | Waiting::Retry { timer } => vec![timer],
            Waiting::Task { timeout, heartbeat, .. } => timeout.into_iter().chain(heartbeat).collect(),
            Waiting::Nothing | Waiting::Children(_) => Vec::new(),
        };
        for timer in timers {
            self.cancel_timer(timer);
        }
    }

    /// Ends everything below `id`, innermost first.
    pub(super) fn abort_children(&mut self, id: u64) {
        let children: Vec<u64> = self
            .state
            .threads
            .iter()
            .filter(|(_, thread)| thread.parent == Some(id))
            .map(|(&child, _)| child)
            .collect();
        let is_map = self.state_of(id).is_some_and(|state| matches!(state.kind, Kind::Map(_)));
        for child in children {
            self.abort_children(child);
            let Some(thread) = self.state.threads.get(&child) else { continue };
            let index = thread.index;
            let waits = thread.waiting != Waiting::Nothing || self.ready.contains(&child);
            if let Waiting::Task { task, .. } = thread.waiting {
                self.commands.push(Command::CancelTask { task });
            }
            if waits
                && thread.entered > 0
                && let Some(state) = self.state_of(child)
            {
                let kind = format!("{}StateAborted", state.kind.name());
                self.tell(child, &kind, |_, _| {});
            }
            if is_map && !self.is_detached(child) {
                let name = self.state.threads.get(&id).map(|thread| thread.state.clone()).unwrap_or_default();
                self.tell(id, "MapIterationAborted", |details, _| {
                    details.insert("name".into(), name.into());
                    details.insert("index".into(), index.into());
                });
            }
            self.release(child);
            self.state.threads.remove(&child);
        }
        if let Some(thread) = self.state.threads.get_mut(&id)
            && matches!(thread.waiting, Waiting::Children(_))
        {
            thread.waiting = Waiting::Nothing;
        }
    }
}

type Left = (Value, Map<String, Value>, Transition, Notes);

/// From a result to the state's output: ResultSelector, ResultPath, OutputPath, or Output; and Assign.
fn leave(scope: &mut Scope<'_>, state: &State, input: &Value, result: &Value) -> Result<Left, Failure> {
    let mut notes = Notes::new();
    let has_result = !matches!(state.kind, Kind::Wait(_));
    let mut assigned = Map::new();
    for (name, template) in &state.assign {
        assigned.insert(name.clone(), scope.template(template, result)?);
    }
    let output = match state.language {
        Language::Jsonata => match &state.output {
            Some(output) => scope.template(output, input)?,
            None => result.clone(),
        },
        Language::JsonPath if !has_result => scope.select(&state.output_path, result.clone())?,
        Language::JsonPath => {
            let selected = match &state.result_selector {
                Some(selector) => scope.template(selector, result)?,
                None => result.clone(),
            };
            notes.push(("afterResultSelector", selected.clone()));
            let combined = place(&state.result_path, input, selected)?;
            notes.push(("afterResultPath", combined.clone()));
            scope.select(&state.output_path, combined)?
        }
    };
    Ok((output, assigned, state.transition.clone(), notes))
}

fn place(placement: &Placement, input: &Value, result: Value) -> Result<Value, Failure> {
    match placement {
        Placement::Replace => Ok(result),
        Placement::Discard => Ok(input.clone()),
        Placement::At(path) => path
            .place(input.clone(), result)
            .map_err(|reason| Failure::in_state(failure::RESULT_PATH_MATCH, reason)),
    }
}
