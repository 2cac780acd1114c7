//! A run as a pure state machine: an event comes in, commands go out, and the state is plain data.
//!
//! Nothing here knows a clock, a network or a random source: times come with events, and random values from a seed
//! given at the start. So the same events always give the same state, and a run is kept by keeping its events (or, now
//! and then, its state). What is done by itself (Pass, Choice, Assign, the bookkeeping of Map and Parallel) is done
//! within the event that made it possible and never needs an event of its own: a chain of N tasks takes N + 1.
//!
//! Events may come late or twice: those for tasks and timers that are no longer waited for change nothing.

mod context;
mod finish;
mod history;
mod inspect;
mod map;
mod run;
mod task;
mod thread;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use history::HistoryEvent;
pub(crate) use inspect::Inspection;
pub use task::lambda_invoke_output;
pub use thread::{Children, Place, Thread, Waiting};

use crate::definition::Definition;
use crate::failure::Failure;
use crate::random::Random;

/// AWS' limits.
pub const LARGEST_PAYLOAD: usize = 256 * 1024;
pub const MOST_EVENTS: u64 = 25_000;

/// The resource of the task that an iteration of a distributed Map is: a run of the machine at `place` (see
/// [`processor_at`](crate::definition::processor_at)) with `input`.
pub const MAP_ITERATION: &str = "minik8s:mapIteration";

/// Who a run is, for the context object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    pub execution_id: String,
    pub execution_name: String,
    pub machine_id: String,
    pub machine_name: String,
    pub role_arn: String,
    /// What makes task tokens impossible to guess; without it they tell run and task only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token_key: String,
    /// Whether whoever runs this makes a run of its own of each iteration of a distributed Map ([`MAP_ITERATION`]).
    /// Else they are part of this run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub map_runs: bool,
}

impl Identity {
    /// The token of a task: `RUN.TASK.PROOF`, where the proof takes the key to make.
    pub fn token(&self, task: u64) -> String {
        if self.token_key.is_empty() {
            return format!("{}/{task}", self.execution_id);
        }
        let hash = |text: &str| -> String {
            Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        // Twice, so that nobody can lengthen what was hashed.
        let inner = hash(&format!("{}/{}/{task}", self.token_key, self.execution_id));
        format!("{}.{task}.{}", self.execution_name, hash(&format!("{}/{inner}", self.token_key)))
    }

    /// Under which whoever carries out a task may keep its result until the run has it. Nobody else can guess it.
    pub fn result_key(&self, task: u64, attempt: u64) -> Option<String> {
        if self.token_key.is_empty() {
            return None;
        }
        let text = format!("{}/{}/result/{attempt}", self.token_key, self.token(task));
        Some(Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// How a run begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    pub identity: Identity,
    pub input: Value,
    /// Milliseconds of the Unix epoch.
    pub time: i64,
    /// For jitter, UUIDs and random numbers.
    pub seed: u64,
}

/// What happened outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The task runs elsewhere now; its result comes later (`.sync`, `.waitForTaskToken`).
    TaskSubmitted {
        task: u64,
        output: Value,
    },
    TaskSucceeded {
        task: u64,
        output: Value,
    },
    TaskFailed {
        task: u64,
        error: String,
        cause: Option<String>,
    },
    TaskHeartbeat {
        task: u64,
    },
    TimerFired {
        timer: u64,
    },
    /// Somebody stopped the run.
    Stopped {
        error: Option<String>,
        cause: Option<String>,
    },
    /// A failed run goes on from the state that failed.
    Redriven,
}

/// What shall happen outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    ScheduleTask(Box<TaskRequest>),
    CancelTask {
        task: u64,
    },
    StartTimer {
        timer: u64,
        at: i64,
    },
    CancelTimer {
        timer: u64,
    },
    /// The run is over.
    Complete(Status),
}

/// A task to run. `task` and `attempt` make its idempotency key, within the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRequest {
    pub task: u64,
    pub state: String,
    pub attempt: u64,
    pub resource: String,
    pub parameters: Value,
    pub credentials: Option<Value>,
    /// For `.waitForTaskToken`.
    pub token: Option<String>,
    pub timeout_seconds: Option<i64>,
    pub heartbeat_seconds: Option<i64>,
}

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Status {
    Running,
    Succeeded { output: Value },
    Failed { error: Option<String>, cause: Option<String> },
    TimedOut,
    Aborted { error: Option<String>, cause: Option<String> },
}

/// Everything about a run that a durable engine may keep; with the definition it is the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub identity: Identity,
    pub input: Value,
    pub start_time: i64,
    pub status: Status,
    pub redrives: u64,
    pub threads: BTreeMap<u64, Thread>,
    random: Random,
    /// Of threads, tasks and timers.
    next_id: u64,
    next_event: u64,
    last_event: u64,
    deadline: Option<u64>,
}

/// A run.
pub struct Execution {
    definition: Arc<Definition>,
    pub state: State,
    now: i64,
    ready: VecDeque<u64>,
    commands: Vec<Command>,
    history: Vec<HistoryEvent>,
    /// What is seen of a single state that somebody tests.
    pub(crate) inspection: Option<Inspection>,
}

const ROOT: u64 = 0;

impl Execution {
    /// Begins a run; the commands are those until it waits for the first time.
    pub fn start(definition: Arc<Definition>, start: Start) -> (Self, Vec<Command>) {
        let mut execution = Self::begin(definition, start);
        let commands = execution.settle();
        (execution, commands)
    }

    /// Begins without going anywhere yet.
    pub(crate) fn begin(definition: Arc<Definition>, start: Start) -> Self {
        let root = Thread::new(None, 0, Vec::new(), definition.machine.start_at.clone(), start.input.clone());
        let timeout = definition.timeout_seconds;
        let state = State {
            identity: start.identity,
            input: start.input,
            start_time: start.time,
            status: Status::Running,
            redrives: 0,
            threads: BTreeMap::from([(ROOT, root)]),
            random: Random::new(start.seed),
            next_id: 1,
            next_event: 1,
            last_event: 0,
            deadline: None,
        };
        let mut execution = Self::resume(definition, state);
        execution.now = start.time;
        execution.tell(ROOT, "ExecutionStarted", |details, execution| {
            details.insert("input".into(), execution.state.input.clone());
            details.insert("roleArn".into(), execution.state.identity.role_arn.clone().into());
        });
        if let Some(seconds) = timeout {
            let timer =
                execution.start_timer(start.time.saturating_add(seconds_to_milliseconds(seconds as f64)));
            execution.state.deadline = Some(timer);
        }
        execution.ready.push_back(ROOT);
        execution
    }

    /// A run as it was kept. Commands that were given before are not given again: whoever keeps the state keeps what
    /// it waits for (`waits`).
    pub fn resume(definition: Arc<Definition>, state: State) -> Self {
        Self {
            definition,
            now: state.start_time,
            state,
            ready: VecDeque::new(),
            commands: Vec::new(),
            history: Vec::new(),
            inspection: None,
        }
    }

    /// A run from all its events so far.
    pub fn replay<'a>(
        definition: Arc<Definition>,
        start: Start,
        events: impl IntoIterator<Item = &'a (i64, Event)>,
    ) -> Self {
        let (mut execution, _) = Self::start(definition, start);
        for (time, event) in events {
            execution.apply(event, *time);
            execution.history.clear();
        }
        execution
    }

    /// Takes in what happened and goes on until everything waits again.
    pub fn apply(&mut self, event: &Event, time: i64) -> Vec<Command> {
        self.now = self.now.max(time);
        if *event == Event::Redriven {
            self.redrive();
            return self.settle();
        }
        if self.state.status != Status::Running {
            return Vec::new();
        }
        match event {
            Event::TaskSubmitted { task, output } => self.task_submitted(*task, output),
            Event::TaskSucceeded { task, output } => self.task_succeeded(*task, output),
            Event::TaskFailed { task, error, cause } => {
                self.task_failed(*task, Failure::reported(Some(error.clone()), cause.clone()));
            }
            Event::TaskHeartbeat { task } => self.task_heartbeat(*task),
            Event::TimerFired { timer } => self.timer_fired(*timer),
            Event::Stopped { error, cause } => self.stop(error.clone(), cause.clone()),
            Event::Redriven => {}
        }
        self.settle()
    }

    /// What history has to tell since it was last asked.
    pub fn take_history(&mut self) -> Vec<HistoryEvent> {
        std::mem::take(&mut self.history)
    }

    /// What the run waits for: tasks and timers, by id.
    pub fn waits(&self) -> Vec<&Waiting> {
        self.state.threads.values().map(|thread| &thread.waiting).collect()
    }

    /// The states that are being executed, outermost first.
    pub fn current_states(&self) -> Vec<&str> {
        let here = self.state.threads.values().filter(|thread| !thread.elsewhere);
        here.map(|thread| thread.state.as_str()).collect()
    }

    fn settle(&mut self) -> Vec<Command> {
        while let Some(thread) = self.ready.pop_front() {
            if self.state.status != Status::Running {
                break;
            }
            if self.state.next_event > MOST_EVENTS {
                let cause =
                    format!("The execution reached the maximum number of history events ({MOST_EVENTS}).");
                self.fail_run(Failure::new(crate::failure::RUNTIME, cause));
                break;
            }
            if self.state.threads.contains_key(&thread) {
                self.advance(thread);
            }
        }
        self.ready.clear();
        std::mem::take(&mut self.commands)
    }

    fn id(&mut self) -> u64 {
        self.state.next_id += 1;
        self.state.next_id - 1
    }

    fn start_timer(&mut self, at: i64) -> u64 {
        let timer = self.id();
        self.commands.push(Command::StartTimer { timer, at });
        timer
    }

    fn cancel_timer(&mut self, timer: u64) {
        // One that was started within this step never gets out.
        let started = self.commands.len();
        self.commands.retain(
            |command| !matches!(command, Command::StartTimer { timer: other, .. } if *other == timer),
        );
        if self.commands.len() == started {
            self.commands.push(Command::CancelTimer { timer });
        }
    }

    fn timer_fired(&mut self, timer: u64) {
        if self.state.deadline == Some(timer) {
            self.state.deadline = None;
            self.abort_all();
            self.tell(ROOT, "ExecutionTimedOut", |_, _| {});
            self.complete(Status::TimedOut);
            return;
        }
        let waiting = self.state.threads.iter().find(|(_, thread)| thread.waiting.has_timer(timer));
        let Some((&thread, found)) = waiting else { return };
        match &found.waiting {
            Waiting::Wait { .. } => self.wait_over(thread),
            Waiting::Retry { .. } => self.retry_now(thread),
            Waiting::Task { heartbeat, .. } => {
                let heartbeat = *heartbeat == Some(timer);
                self.task_timed_out(thread, heartbeat);
            }
            Waiting::Nothing | Waiting::Children(_) => {}
        }
    }

    fn stop(&mut self, error: Option<String>, cause: Option<String>) {
        self.abort_all();
        let (shown_error, shown_cause) = (error.clone(), cause.clone());
        self.tell(ROOT, "ExecutionAborted", |details, _| {
            history::put(details, "error", shown_error);
            history::put(details, "cause", shown_cause);
        });
        self.complete(Status::Aborted { error, cause });
    }

    /// The run failed; the thread that failed stays, so that it can be redriven.
    fn fail_run(&mut self, failure: Failure) {
        self.abort_children(ROOT);
        let (error, cause) = (failure.error, failure.cause);
        let (shown_error, shown_cause) = (error.clone(), cause.clone());
        self.tell(ROOT, "ExecutionFailed", |details, _| {
            history::put(details, "error", shown_error);
            history::put(details, "cause", shown_cause);
        });
        if let Some(root) = self.state.threads.get_mut(&ROOT) {
            root.waiting = Waiting::Nothing;
        }
        self.complete(Status::Failed { error, cause });
    }

    fn complete(&mut self, status: Status) {
        if let Some(timer) = self.state.deadline.take() {
            self.cancel_timer(timer);
        }
        self.state.status = status.clone();
        self.commands.push(Command::Complete(status));
    }

    fn redrive(&mut self) {
        let over =
            matches!(self.state.status, Status::Failed { .. } | Status::TimedOut | Status::Aborted { .. });
        if !over || !self.state.threads.contains_key(&ROOT) {
            return;
        }
        self.state.status = Status::Running;
        self.state.redrives += 1;
        let count = self.state.redrives;
        self.tell(ROOT, "ExecutionRedriven", |details, _| {
            details.insert("redriveCount".into(), count.into());
        });
        if let Some(root) = self.state.threads.get_mut(&ROOT) {
            root.waiting = Waiting::Nothing;
        }
        self.ready.push_back(ROOT);
    }

    fn abort_all(&mut self) {
        self.abort_children(ROOT);
        self.release(ROOT);
    }
}

/// Never overflows; a year of seconds beyond a century is a century.
fn seconds_to_milliseconds(seconds: f64) -> i64 {
    (seconds.clamp(0.0, 3_155_760_000.0) * 1000.0) as i64
}
