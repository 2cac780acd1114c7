//! One run, driven: events come in, are kept, and only then acted upon.
//!
//! It knows neither the API nor what tasks do. Dropping it at any moment loses nothing that was acknowledged: what is
//! kept gives the same run again ([`Drive::resume`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use minik8s_api::{OwnerVersion, Records};
use minik8s_asl::definition::{Definition, Pattern, Resource};
use minik8s_asl::engine::{Command, Event, Execution, Status, TaskRequest};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::outstanding::Outstanding;
use crate::journal::{Beginning, Entry, Instance, Journal, JournalError, Kept};
use crate::tasks::{Job, TaskContext, Tasks, TellInstance};

/// Milliseconds of the Unix epoch.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What every run needs.
#[derive(Clone)]
pub struct Means {
    pub tasks: Arc<dyn Tasks>,
    pub clock: Clock,
}

pub struct Drive {
    execution: Execution,
    /// None: nothing is kept (Express).
    journal: Option<Journal>,
    outstanding: Outstanding,
    means: Means,
    context: Arc<TaskContext>,
    sender: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    running: JoinSet<()>,
    aborts: HashMap<u64, AbortHandle>,
    /// Who carries out tasks that are under way, once it is known.
    instances: HashMap<u64, TellInstance>,
    /// How many tasks waited for the start of an instance.
    pub cold_starts: u64,
    /// Of the history that follows from the events.
    pub history_events: u64,
}

impl Drive {
    /// Begins a run; with `keep` it is durable before its first task is started.
    pub async fn begin(
        means: Means,
        context: TaskContext,
        definition: Definition,
        beginning: Beginning,
        keep: Option<(Arc<dyn Records>, OwnerVersion<'_>)>,
    ) -> Result<Self, JournalError> {
        let start = beginning.start.clone();
        let journal = match keep {
            Some((records, owner)) => Some(Journal::begin(records, &context.uid, owner, beginning).await?),
            None => None,
        };
        let (execution, commands) = Execution::start(Arc::new(definition), start);
        let mut drive = Self::new(means, context, execution, journal);
        drive.outstanding.follow(None, &commands, &drive.execution);
        drive.note_history();
        drive.act(false);
        Ok(drive)
    }

    /// A run as it was kept. Tasks that were under way are asked for again, under the same keys.
    pub fn resume(
        means: Means,
        context: TaskContext,
        definition: Definition,
        journal: Journal,
        kept: Kept,
    ) -> Self {
        let is_cold = |entry: &&Entry| entry.instance.as_ref().is_some_and(|one| one.cold == Some(true));
        let cold_starts = kept.events.iter().filter(is_cold).count() as u64;
        let (execution, outstanding, history) = replay(definition, kept);
        let mut drive = Self::new(means, context, execution, Some(journal));
        drive.outstanding = outstanding;
        drive.history_events = history;
        drive.cold_starts = cold_starts;
        drive.act(true);
        drive
    }

    fn new(means: Means, context: TaskContext, execution: Execution, journal: Option<Journal>) -> Self {
        // One event or few of each task that is under way, of which there are no more than the run's limits allow.
        let (sender, events) = mpsc::unbounded_channel();
        Drive {
            execution,
            journal,
            outstanding: Outstanding::default(),
            means,
            context: Arc::new(context),
            sender,
            events,
            running: JoinSet::new(),
            aborts: HashMap::new(),
            instances: HashMap::new(),
            cold_starts: 0,
            history_events: 0,
        }
    }

    pub fn status(&self) -> &Status {
        &self.execution.state.status
    }

    pub fn is_over(&self) -> bool {
        *self.status() != Status::Running
    }

    pub fn start_time(&self) -> i64 {
        self.execution.state.start_time
    }

    pub fn now(&self) -> i64 {
        (self.means.clock)()
    }

    pub fn redrives(&self) -> u64 {
        self.execution.state.redrives
    }

    pub fn current_states(&self) -> Vec<String> {
        self.execution.current_states().into_iter().map(str::to_owned).collect()
    }

    /// What its history takes in the store.
    pub fn history_bytes(&self) -> Option<usize> {
        self.journal.as_ref().map(|journal| journal.bytes)
    }

    /// Waits for what happens next. May be dropped and asked again.
    pub async fn next_event(&mut self) -> Event {
        loop {
            let timer = self.outstanding.next_timer();
            let due = async {
                let Some((timer, at)) = timer else { return std::future::pending().await };
                let wait = at.saturating_sub((self.means.clock)()).max(0);
                tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
                timer
            };
            let event = tokio::select! {
                // The sender is our own: there is always one.
                Some(event) = self.events.recv() => event,
                timer = due => Event::TimerFired { timer },
            };
            if self.outstanding.awaits(&event) {
                return event;
            }
        }
    }

    /// Takes an event in: keeps it, then does what follows from it. `used` are records that it was made of.
    pub async fn take(&mut self, event: Event, used: Vec<String>) -> Result<(), JournalError> {
        let now = (self.means.clock)();
        let commands = self.execution.apply(&event, now);
        self.note_history();
        let over = self.is_over();
        let instance = self.instance_of(&event);
        self.cold_starts += u64::from(instance.as_ref().is_some_and(|one| one.cold == Some(true)));
        if let Some(journal) = &mut self.journal {
            let entry = Entry { time: now, event: event.clone(), instance };
            journal.append(entry, over, used).await?;
        }
        self.acknowledge(&event, &commands, over);
        for command in &commands {
            if let Command::CancelTask { task } = command {
                self.abort(*task);
            }
        }
        self.outstanding.follow(Some(&event), &commands, &self.execution);
        self.act(false);
        Ok(())
    }

    /// What is written down, or wanted no more, need not be kept elsewhere.
    fn acknowledge(&self, event: &Event, commands: &[Command], over: bool) {
        let ended = match event {
            Event::TaskSucceeded { task, .. } | Event::TaskFailed { task, .. } => Some(*task),
            _ => None,
        };
        let is_cancelled = |wanted: u64| {
            commands.iter().any(|one| matches!(one, Command::CancelTask { task } if *task == wanted))
        };
        for (&task, request) in &self.outstanding.tasks {
            let has_ended = ended == Some(task);
            if !has_ended && !over && !is_cancelled(task) {
                continue;
            }
            let job = self.job(request.clone(), false);
            self.means.tasks.acknowledge(&job);
            if !has_ended {
                self.means.tasks.cancel(&job);
            }
        }
    }

    fn job(&self, request: TaskRequest, again: bool) -> Job {
        let identity = &self.execution.state.identity;
        let kept = self.journal.is_some();
        Job {
            context: self.context.clone(),
            submitted: self.outstanding.submitted.contains(&request.task),
            result_key: kept.then(|| identity.result_key(request.task, request.attempt)).flatten(),
            again,
            instance: TellInstance::default(),
            request,
        }
    }

    /// Who carried out the task that has ended.
    fn instance_of(&mut self, event: &Event) -> Option<Instance> {
        let (Event::TaskSucceeded { task, .. } | Event::TaskFailed { task, .. }) = event else { return None };
        self.instances.remove(task).and_then(|told| told.get().cloned())
    }

    pub fn awaits(&self, event: &Event) -> bool {
        self.outstanding.awaits(event)
    }

    fn note_history(&mut self) {
        if let Some(last) = self.execution.take_history().last() {
            self.history_events = last.id;
        }
    }

    fn abort(&mut self, task: u64) {
        if let Some(handle) = self.aborts.remove(&task) {
            handle.abort();
        }
    }

    /// Starts the tasks that are awaited and not under way; `again` if a process that is no more may have done so.
    fn act(&mut self, again: bool) {
        while self.running.try_join_next().is_some() {}
        self.aborts.retain(|task, _| self.outstanding.tasks.contains_key(task));
        self.instances.retain(|task, _| self.outstanding.tasks.contains_key(task));
        let waiting: Vec<u64> = self.outstanding.tasks.keys().copied().collect();
        for task in waiting {
            if self.aborts.contains_key(&task) {
                continue;
            }
            let Some(request) = self.outstanding.tasks.get(&task).cloned() else { continue };
            let job = self.job(request, again);
            if job.submitted && pattern(&job.request.resource) == Pattern::WaitForTaskToken {
                continue;
            }
            self.instances.insert(task, job.instance.clone());
            let carried = carry_out(self.means.tasks.clone(), job, self.sender.clone());
            let handle = self.running.spawn(carried);
            self.aborts.insert(task, handle);
        }
    }
}

/// The run as its events tell it, what it waits for, and how long its history is.
pub fn replay(definition: Definition, kept: Kept) -> (Execution, Outstanding, u64) {
    let (mut execution, commands) = Execution::start(Arc::new(definition), kept.beginning.start);
    let mut outstanding = Outstanding::default();
    outstanding.follow(None, &commands, &execution);
    let mut history = execution.take_history().last().map_or(0, |event| event.id);
    for entry in &kept.events {
        let commands = execution.apply(&entry.event, entry.time);
        outstanding.follow(Some(&entry.event), &commands, &execution);
        history = execution.take_history().last().map_or(history, |event| event.id);
    }
    (execution, outstanding, history)
}

pub fn pattern(resource: &str) -> Pattern {
    Resource::parse(resource).map_or(Pattern::RequestResponse, |resource| resource.pattern())
}

/// Runs a task and tells its end.
async fn carry_out(tasks: Arc<dyn Tasks>, job: Job, sender: mpsc::UnboundedSender<Event>) {
    let task = job.request.task;
    let mut unfinished = Unfinished { task, sender: sender.clone(), told: false };
    let submitted = |output| {
        let _ = sender.send(Event::TaskSubmitted { task, output });
    };
    let event = match tasks.run(&job, &submitted).await {
        Ok(output) if pattern(&job.request.resource) == Pattern::WaitForTaskToken => {
            Event::TaskSubmitted { task, output }
        }
        Ok(output) => Event::TaskSucceeded { task, output },
        Err(failed) => Event::TaskFailed { task, error: failed.error, cause: failed.cause },
    };
    unfinished.told = true;
    // Nobody listens when the run is over or this server no longer leads.
    let _ = sender.send(event);
}

/// A task that breaks off must not be waited for for ever.
struct Unfinished {
    task: u64,
    sender: mpsc::UnboundedSender<Event>,
    told: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.told && std::thread::panicking() {
            let cause = Some("The task broke off inside of the server: see its log.".to_owned());
            let error = minik8s_asl::failure::RUNTIME.to_owned();
            let _ = self.sender.send(Event::TaskFailed { task: self.task, error, cause });
        }
    }
}
