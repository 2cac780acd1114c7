//! Map: iterations, how many at once, and how many may fail; and what becomes of a Parallel's branches.

use serde_json::{Map, Value, json};

use super::context::Extra;
use super::run::Notes;
use super::thread::{Children, Place, Thread, Waiting};
use super::{Command, Execution, MAP_ITERATION, TaskRequest};
use crate::definition::{Batcher, Items, Kind, MapState, State};
use crate::evaluate::Scope;
use crate::failure::{self, Failure};
use crate::values;

/// How many iterations run at once when the definition sets no bound.
const MOST_INLINE: usize = 40;
/// And how many runs of a distributed Map.
const MOST_RUNS: usize = 1000;

/// How many iterations may fail, and what share of them.
type Tolerated = (Option<i64>, Option<f64>);

/// A Map's fields, computed.
struct Prepared {
    items: Vec<Value>,
    most: usize,
    input: Value,
    tolerated: Result<Tolerated, Failure>,
    distributed: bool,
    notes: Notes,
}

impl Execution {
    pub(super) fn start_map(&mut self, id: u64, input: &Value) -> Result<(), Failure> {
        let prepared = self.scoped(id, input, Extra::default(), |scope, state| prepare(scope, state, input));
        let Some(prepared) = prepared else { return Ok(()) };
        let Prepared { mut items, most, input, tolerated, distributed, notes } = prepared?;
        self.note(notes);
        if self.inspection.is_some() {
            return tolerated.map(|_| ());
        }
        let length = items.len();
        self.tell(id, "MapStateStarted", |details, _| {
            details.insert("length".into(), length.into());
        });
        // AWS looks at these only once the Map has started.
        let (tolerated_count, tolerated_percentage) = tolerated?;
        if distributed {
            let arn = format!("{}/map-run-{}", self.state.identity.execution_id, self.state.next_id);
            self.tell(id, "MapRunStarted", |details, _| {
                details.insert("mapRunArn".into(), arn.into());
            });
        }
        items.reverse();
        let children = Children {
            results: vec![None; length],
            done: 0,
            running: 0,
            failed: 0,
            items,
            most,
            input,
            tolerated_count,
            tolerated_percentage,
        };
        self.wait(id, Waiting::Children(Box::new(children)));
        self.next_iterations(id)
    }

    /// Starts as many iterations as may run, and ends the Map when none is left.
    fn next_iterations(&mut self, id: u64) -> Result<(), Failure> {
        loop {
            let Some(thread) = self.state.threads.get_mut(&id) else { return Ok(()) };
            let Waiting::Children(children) = &mut thread.waiting else { return Ok(()) };
            if children.running >= children.most {
                return Ok(());
            }
            let Some(item) = children.items.pop() else {
                if children.running > 0 {
                    return Ok(());
                }
                return self.map_done(id);
            };
            let index = children.results.len() - children.items.len() - 1;
            children.running += 1;
            let effective = std::mem::take(&mut children.input);
            let raw = thread.input.clone();
            let context = json!({"Index": index, "Value": item});
            if !self.is_distributed(id) {
                self.tell_iteration(id, "MapIterationStarted", index);
            }
            let extra = Extra { item: Some(&context), ..Extra::default() };
            let selected = self.scoped(id, &raw, extra, |scope, state| {
                let Kind::Map(map) = &state.kind else {
                    return Err(Failure::runtime("The state is no Map."));
                };
                let input = match &map.selector {
                    Some(selector) => scope.template(selector, &effective)?,
                    None => item,
                };
                Ok((input, map.processor.start_at.clone(), map.distributed))
            });
            if let Some(Waiting::Children(children)) =
                self.state.threads.get_mut(&id).map(|thread| &mut thread.waiting)
            {
                children.input = effective;
            }
            let Some(selected) = selected else { return Ok(()) };
            let (input, start, distributed) = selected?;
            if distributed && self.state.identity.map_runs {
                self.start_run(id, index, start, input);
            } else {
                self.spawn(id, index, 0, start, input, Some(context), distributed);
            }
        }
    }

    /// An iteration that is a run of its own: a task to us.
    fn start_run(&mut self, id: u64, index: usize, start: String, input: Value) {
        let Some(outer) = self.state.threads.get(&id) else { return };
        let mut place = outer.place.clone();
        place.push(Place { state: outer.state.clone(), branch: 0 });
        let (state, attempt) = (outer.state.clone(), outer.retry_count);
        let task = self.id();
        let mut thread = Thread::new(Some(id), index, place.clone(), start, Value::Null);
        (thread.detached, thread.elsewhere) = (true, true);
        thread.waiting = Waiting::Task { task, timeout: None, heartbeat: None, heartbeat_seconds: None };
        let child = self.id();
        self.state.threads.insert(child, thread);
        self.commands.push(Command::ScheduleTask(Box::new(TaskRequest {
            task,
            state,
            attempt,
            resource: MAP_ITERATION.to_owned(),
            parameters: json!({"place": place, "index": index, "input": input}),
            credentials: None,
            token: None,
            timeout_seconds: None,
            heartbeat_seconds: None,
        })));
    }

    /// The Map and the iteration that a task is.
    pub(super) fn run_of(&self, wanted: u64) -> Option<(u64, u64)> {
        let found = self.state.threads.iter().find(|(_, thread)| {
            thread.elsewhere && matches!(thread.waiting, Waiting::Task { task, .. } if task == wanted)
        });
        found.and_then(|(&child, thread)| thread.parent.map(|parent| (parent, child)))
    }

    fn is_distributed(&self, id: u64) -> bool {
        self.state
            .threads
            .get(&id)
            .and_then(|thread| self.machine(thread)?.states.get(&thread.state))
            .is_some_and(|state| matches!(&state.kind, Kind::Map(map) if map.distributed))
    }

    fn map_done(&mut self, id: u64) -> Result<(), Failure> {
        let results = self.take_results(id);
        if self.is_distributed(id) {
            self.tell(id, "MapRunSucceeded", |_, _| {});
        }
        self.tell(id, "MapStateSucceeded", |_, _| {});
        self.note(vec![("result", results.clone())]);
        self.state_succeeded(id, results)
    }

    fn take_results(&mut self, id: u64) -> Value {
        let Some(thread) = self.state.threads.get_mut(&id) else { return Value::Null };
        match std::mem::replace(&mut thread.waiting, Waiting::Nothing) {
            Waiting::Children(children) => children.results.into_iter().flatten().collect(),
            _ => Value::Null,
        }
    }

    pub(super) fn child_succeeded(&mut self, parent: u64, child: u64, output: Value) {
        let Some(index) = self.state.threads.remove(&child).map(|thread| thread.index) else { return };
        let is_map = self.is_map(parent);
        if is_map && !self.is_distributed(parent) {
            self.tell_iteration(parent, "MapIterationSucceeded", index);
        }
        let Some(thread) = self.state.threads.get_mut(&parent) else { return };
        let Waiting::Children(children) = &mut thread.waiting else { return };
        if let Some(place) = children.results.get_mut(index) {
            *place = Some(output);
        }
        children.done += 1;
        children.running -= 1;
        let finished = children.running == 0;
        let done = if is_map {
            self.next_iterations(parent)
        } else if finished {
            let results = self.take_results(parent);
            self.tell(parent, "ParallelStateSucceeded", |_, _| {});
            self.note(vec![("result", results.clone())]);
            self.state_succeeded(parent, results)
        } else {
            Ok(())
        };
        if let Err(failure) = done {
            self.state_failed(parent, failure);
        }
    }

    pub(super) fn child_failed(&mut self, parent: u64, child: u64, failure: Failure) {
        let distributed = self.is_distributed(parent);
        self.abort_children(child);
        let Some(index) = self.state.threads.remove(&child).map(|thread| thread.index) else { return };
        if self.is_map(parent) && !distributed {
            self.tell_iteration(parent, "MapIterationFailed", index);
        }
        if !distributed {
            self.state_failed(parent, failure);
            return;
        }
        let Some(thread) = self.state.threads.get_mut(&parent) else { return };
        let Waiting::Children(children) = &mut thread.waiting else { return };
        children.failed += 1;
        children.running -= 1;
        if let Some(place) = children.results.get_mut(index) {
            *place = Some(failure.output());
        }
        let (failed, all) = (children.failed as f64, children.results.len().max(1) as f64);
        let within = match (children.tolerated_count, children.tolerated_percentage) {
            (None, None) => false,
            (count, percentage) => {
                count.is_none_or(|count| failed <= count as f64)
                    && percentage.is_none_or(|percentage| failed * 100.0 / all <= percentage)
            }
        };
        if within {
            if let Err(failure) = self.next_iterations(parent) {
                self.state_failed(parent, failure);
            }
            return;
        }
        let exceeded =
            Failure::new(failure::EXCEED_TOLERATED, "The specified tolerated failure threshold was exceeded");
        let (error, cause) = (exceeded.error.clone(), exceeded.cause.clone());
        self.tell(parent, "MapRunFailed", |details, _| {
            super::history::put(details, "error", error);
            super::history::put(details, "cause", cause);
        });
        self.state_failed(parent, exceeded);
    }

    fn is_map(&self, id: u64) -> bool {
        self.state
            .threads
            .get(&id)
            .and_then(|thread| self.machine(thread)?.states.get(&thread.state))
            .is_some_and(|state| matches!(state.kind, Kind::Map(_)))
    }

    fn tell_iteration(&mut self, id: u64, kind: &str, index: usize) {
        let name = self.state.threads.get(&id).map(|thread| thread.state.clone()).unwrap_or_default();
        self.tell(id, kind, |details, _| {
            details.insert("name".into(), name.into());
            details.insert("index".into(), index.into());
        });
    }
}

fn prepare(scope: &mut Scope<'_>, state: &State, input: &Value) -> Result<Prepared, Failure> {
    let Kind::Map(map) = &state.kind else { return Err(Failure::runtime("The state is no Map.")) };
    let effective = scope.select(&state.input_path, input.clone())?;
    let mut notes = Notes::new();
    if map.reader.is_some() && map.read_items.is_none() {
        return Err(Failure::in_state(
            failure::ITEM_READER_FAILED,
            "Items can be read from the state's input only: ItemReader is not supported.",
        ));
    }
    let most = map
        .max_concurrency
        .as_ref()
        .map(|field| scope.integer(field, "MaxConcurrency", &effective))
        .transpose()?;
    if most.is_some_and(|most| most < 0) {
        return Err(Failure::runtime("MaxConcurrency cannot be negative."));
    }
    let tolerated = tolerated(scope, map, &effective);
    notes.push(("maxConcurrency", most.unwrap_or(0).into()));
    if let Ok((Some(count), _)) = tolerated {
        notes.push(("toleratedFailureCount", count.into()));
    }
    if let Ok((_, Some(percentage))) = tolerated {
        notes.push(("toleratedFailurePercentage", percentage.into()));
    }
    let items = items(scope, map, &effective, &mut notes)?;
    let items = match &map.batcher {
        Some(batcher) => batch(scope, batcher, items, &effective)?,
        None => items,
    };
    let most = match most {
        Some(most) if most > 0 => most as usize,
        _ if map.distributed => MOST_RUNS,
        _ => MOST_INLINE,
    };
    Ok(Prepared { items, most, input: effective, tolerated, distributed: map.distributed, notes })
}

fn tolerated(scope: &mut Scope<'_>, map: &MapState, effective: &Value) -> Result<Tolerated, Failure> {
    let count = map
        .tolerated_count
        .as_ref()
        .map(|field| scope.integer(field, "ToleratedFailureCount", effective))
        .transpose()?;
    let percentage = map
        .tolerated_percentage
        .as_ref()
        .map(|field| scope.float(field, "ToleratedFailurePercentage", effective))
        .transpose()?;
    if count.is_some_and(|count| count < 0) {
        return Err(Failure::runtime("ToleratedFailureCount cannot be negative."));
    }
    if percentage.is_some_and(|percentage| !(0.0..=100.0).contains(&percentage)) {
        return Err(Failure::runtime("ToleratedFailurePercentage must be between 0 and 100."));
    }
    Ok((count, percentage))
}

fn items(
    scope: &mut Scope<'_>,
    map: &MapState,
    effective: &Value,
    notes: &mut Notes,
) -> Result<Vec<Value>, Failure> {
    let (value, shown) = match &map.items {
        _ if map.read_items.is_some() => (map.read_items.clone().unwrap_or_default(), String::new()),
        Items::Input => (effective.clone(), "$".to_owned()),
        // A path into the context object is shown without its first sign.
        Items::Path(query) => {
            let text = query.text();
            (
                scope.path_field(query, effective)?,
                text.strip_prefix("$$").map_or(text.to_owned(), |rest| format!("${rest}")),
            )
        }
        // A distributed Map takes objects as well.
        Items::Jsonata(jsonata) => match scope.jsonata(jsonata)? {
            value @ Value::Object(_) if map.distributed => (value, String::new()),
            value => (Scope::of_type(jsonata, value, "array")?, String::new()),
        },
        Items::Template(template) => (scope.template(template, effective)?, String::new()),
    };
    if matches!(map.items, Items::Path(_)) && value.is_array() {
        notes.push(("afterItemsPath", value.clone()));
    }
    match value {
        Value::Array(items) => Ok(items),
        // A distributed Map takes an object's fields as items.
        Value::Object(fields) if map.distributed => {
            Ok(fields.into_iter().map(|(key, value)| json!({"Key": key, "Value": value})).collect())
        }
        _ => Err(Failure::runtime(format!("Reference path \"{shown}\" must point to array."))),
    }
}

/// Lists of items, with what the batcher adds to each.
fn batch(
    scope: &mut Scope<'_>,
    batcher: &Batcher,
    items: Vec<Value>,
    effective: &Value,
) -> Result<Vec<Value>, Failure> {
    let mut bound = |field: &Option<crate::definition::NumberField>, name: &str| {
        let value = field.as_ref().map(|field| scope.integer(field, name, effective)).transpose()?;
        Ok(value.map_or(usize::MAX, |value| value.max(1) as usize))
    };
    let most_items = bound(&batcher.most_items, "MaxItemsPerBatch")?;
    let most_bytes = bound(&batcher.most_bytes, "MaxInputBytesPerBatch")?;
    let input = batcher.input.as_ref().map(|input| scope.template(input, effective)).transpose()?;
    let mut batches: Vec<Vec<Value>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        let size = values::size(&item) + 1;
        match batches.last_mut().filter(|batch| batch.len() < most_items && bytes + size <= most_bytes) {
            Some(batch) => {
                bytes += size;
                batch.push(item);
            }
            None => {
                bytes = size;
                batches.push(vec![item]);
            }
        }
    }
    Ok(batches
        .into_iter()
        .map(|items| {
            let mut batch = Map::new();
            if let Some(input) = &input {
                batch.insert("BatchInput".into(), input.clone());
            }
            batch.insert("Items".into(), Value::Array(items));
            Value::Object(batch)
        })
        .collect())
}
