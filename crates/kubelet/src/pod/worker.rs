//! The worker of one pod: an actor that owns everything the agent knows of it.
//!
//! It plans, starts operations for the plan's actions, tells the API server the status, and sleeps until
//! something changes. Operations run beside it, so a long pull or a slow end never makes it deaf. One that panics begins
//! anew, as after a restart of the agent: it never leaves its pod to nobody.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use minik8s_informer::Backoff;
use minik8s_runtime::panic_message;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use super::admission::refusal;
use super::desired_pod::DesiredPod;
use super::exits::ExpectedExits;
use super::local_state::{Failure, ForcedTermination, Health, LocalState, Target};
use super::operation::{Done, Operation, OperationError, STOPPED, Started, subject};
use super::plan::{Action, must_stop, plan};
use super::report::{Report, Reporter};
use super::resize::{self, Verdict};
use super::status::{NodeAddress, status};
use super::termination::{left_messages, read_messages};
use crate::context::{NodeContext, PodContext};
use crate::cri::{ContainerState, PodRecord};
use crate::events::Severity;
use crate::objects::{References, Subscription};
use crate::probe::{ProbeBoard, ProbeResult, ProbeTarget};
use crate::quantity;

/// The runtime may be away; ask again soon.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);
const MAILBOX: usize = 64;
/// Before a worker that has panicked begins anew.
const PANICKED: Backoff = Backoff::millis(500, 60_000);
/// Kubernetes' reason for an agent that cannot do its work.
const FAILED_SYNC: &str = "FailedSync";

#[derive(Debug)]
pub enum Message {
    /// A new version of the API object.
    Pod(Arc<core::Pod>),
    /// The object that mirrors a pod from a file.
    Mirror(Arc<core::Pod>),
    /// The API object is gone, or there never was one; or the file of a static pod is.
    Gone,
    /// The pod must end although nobody deleted it.
    ForcedTermination(ForcedTermination),
    /// Look at the runtime again.
    RuntimeChanged,
    /// A container's main process ended. CRI may take a moment longer to know.
    Exited(String),
    /// The kernel killed a process of a container for want of memory. CRI may learn of its end first.
    OutOfMemory(String),
    #[cfg(test)]
    Fault,
}

/// Where a pod comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Api,
    File,
}

/// What is known of a pod when its worker begins.
#[derive(Debug, Default)]
pub struct Birth {
    /// The runtime has nothing of it.
    pub is_new: bool,
    /// It was not admitted.
    pub rejected: Option<ForcedTermination>,
}

/// Sends to a worker. Messages carry no state that could be stale, so a full mailbox loses nothing.
#[derive(Clone)]
pub struct Mailbox(mpsc::Sender<Message>);

impl Mailbox {
    /// A worker that is not there any more has ended with all that was the pod's: then there is nobody to tell.
    pub async fn send(&self, message: Message) {
        let _ = self.0.send(message).await;
    }
}

pub struct Worker {
    context: Arc<PodContext>,
    messages: mpsc::Receiver<Message>,
    desired_pod: DesiredPod,
    record: PodRecord,
    local_state: LocalState,
    operations: JoinSet<Finished>,
    /// Tells operations that wait for something that the pod must end.
    stop: CancellationToken,
    reporter: Reporter,
    origin: Origin,
    /// The object to report to, for a pod from a file.
    mirror: Option<Arc<core::Pod>>,
    exits: ExpectedExits,
    objects: Subscription,
    probes: ProbeBoard,
    /// The runtime has nothing of it.
    is_new: bool,
    /// The API object is gone: nothing to report to.
    gone: bool,
    /// Everything on this node is gone.
    removed: bool,
}

struct Finished {
    action: Action,
    /// The state of the volumes' sources when it began.
    sources: u64,
    result: Result<Done, OperationError>,
}

impl Worker {
    /// Starts a worker. It ends when nothing of the pod is left.
    pub fn spawn(
        context: Arc<PodContext>,
        pod: Arc<core::Pod>,
        origin: Origin,
        birth: Birth,
        done: impl Future<Output = ()> + Send + 'static,
    ) -> Mailbox {
        let (worker, mailbox) = Worker::new(context, pod, origin, birth);
        tokio::spawn(async move {
            worker.live().await;
            done.await;
        });
        mailbox
    }

    fn new(context: Arc<PodContext>, pod: Arc<core::Pod>, origin: Origin, birth: Birth) -> (Self, Mailbox) {
        let (sender, messages) = mpsc::channel(MAILBOX);
        let desired_pod = DesiredPod::new(pod);
        let counted = context.metrics.probes.pod(&desired_pod.namespace, &desired_pod.name, &desired_pod.uid);
        let worker = Worker {
            reporter: Reporter::new(context.client.clone()),
            record: PodRecord { uid: desired_pod.uid.clone(), ..PodRecord::default() },
            context,
            messages,
            desired_pod,
            local_state: LocalState {
                accepted: Some(Timestamp::now()),
                end: birth.rejected,
                ..LocalState::default()
            },
            operations: JoinSet::new(),
            stop: CancellationToken::new(),
            origin,
            mirror: None,
            exits: ExpectedExits::default(),
            objects: Subscription::default(),
            probes: ProbeBoard::new(counted),
            is_new: birth.is_new,
            gone: false,
            removed: false,
        };
        (worker, Mailbox(sender))
    }

    /// Until nothing of the pod is left, or the agent ends.
    async fn live(mut self) {
        let mut retries = PANICKED.retries();
        let mut pause = Duration::ZERO;
        loop {
            let begun = Instant::now();
            let ended = AssertUnwindSafe(self.run(pause)).catch_unwind().await;
            let Err(panic) = ended else { return };
            if begun.elapsed() > pause + PANICKED.most {
                // One that has lived for long has recovered from its last failure.
                retries.succeeded();
            }
            pause = retries.failed();
            let message = panic_message(&*panic);
            error!(pod = %self.desired_pod.full_name(), panic = message, "its worker begins anew in {pause:?}");
            let message = format!("the pod's worker has panicked and begins anew in {pause:?}: {message}");
            let pod = subject(&self.desired_pod, None);
            self.context.recorder.record(pod, Severity::Warning, FAILED_SYNC, &message);
        }
    }

    /// Takes what it is told, so that nobody waits for it, until the pause is over and nothing is under way any more.
    /// False if the agent ends.
    async fn rest(&mut self, pause: Duration) -> bool {
        self.stop.cancel();
        let until = tokio::time::Instant::now() + pause;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until), if self.operations.is_empty() => return true,
                Some(_) = self.operations.join_next() => {}
                message = self.messages.recv() => match message {
                    Some(message) => {
                        self.learn(message);
                    }
                    None => return false,
                },
            }
        }
    }

    /// Keeps what somebody told it, and forgets what it has found out.
    fn begin_anew(&mut self) {
        self.record = PodRecord { uid: self.desired_pod.uid.clone(), ..PodRecord::default() };
        self.local_state = LocalState {
            accepted: self.local_state.accepted,
            end: self.local_state.end.take(),
            ..LocalState::default()
        };
        self.stop = CancellationToken::new();
        self.reporter = Reporter::new(self.context.client.clone());
        self.exits = ExpectedExits::default();
        self.objects = Subscription::default();
        self.probes = ProbeBoard::new(self.probes.counted());
        (self.is_new, self.removed) = (false, false);
    }

    /// After a pause only if it has panicked before.
    async fn run(&mut self, pause: Duration) {
        if !pause.is_zero() {
            if !self.rest(pause).await {
                return;
            }
            self.begin_anew();
        }
        let mut known = self.is_new || self.refresh().await;
        loop {
            let wake = if known { self.step() } else { None };
            self.exits.observe(&self.record);
            let look_again = if known { self.exits.look_again() } else { Some(RUNTIME_RETRY) };
            if self.removed && (self.gone || self.reporter.deleted()) {
                return;
            }
            tokio::select! {
                message = self.messages.recv() => match message {
                    Some(message) => self.receive(message, &mut known).await,
                    // The agent ends; the pod does not.
                    None => return,
                },
                Some(finished) = self.operations.join_next() => {
                    let seen = finished.is_ok_and(|finished| self.note(finished));
                    known = (known && seen) || self.refresh().await;
                }
                () = self.reporter.progress() => {}
                result = self.probes.next() => self.probed(&result),
                () = self.objects.changed() => self.objects_changed(),
                () = sleep_until(wake) => {}
                () = sleep(look_again) => known = self.refresh().await,
            }
        }
    }

    async fn receive(&mut self, message: Message, known: &mut bool) {
        if self.learn(message) {
            *known = self.refresh().await;
        }
    }

    /// True if the runtime must be looked at.
    fn learn(&mut self, message: Message) -> bool {
        match message {
            Message::Pod(pod) => {
                let restarts = self.desired_pod.terminal;
                let (old, new) = (&self.desired_pod.pod.metadata, &pod.metadata);
                let relabelled = (&old.labels, &old.annotations) != (&new.labels, &new.annotations);
                self.desired_pod = DesiredPod::new(pod);
                // A phase that ended stays ended, whatever an old version of the object says.
                self.desired_pod.terminal |= restarts;
                if relabelled {
                    // Labels and annotations may be files in a volume.
                    self.local_state.volumes.source_changed();
                }
            }
            Message::Mirror(mirror) => self.see_mirror(mirror),
            Message::Gone => {
                self.gone = true;
                if self.desired_pod.deleted.is_none() {
                    self.desired_pod.deleted = Some(Timestamp::now());
                }
            }
            Message::ForcedTermination(end) => {
                self.local_state.end = self.local_state.end.take().or(Some(end))
            }
            Message::RuntimeChanged => return true,
            Message::Exited(id) => {
                self.exits.expect(id);
                return true;
            }
            Message::OutOfMemory(id) => {
                self.exits.expect_out_of_memory(id);
                return true;
            }
            #[cfg(test)]
            Message::Fault => std::panic::resume_unwind(Box::new("a fault in the worker")),
        }
        false
    }

    /// What the mirror says of the past is all that is known of it; what it says of the pod does not count.
    fn see_mirror(&mut self, mirror: Arc<core::Pod>) {
        if self.gone {
            return;
        }
        let known = self.mirror.as_ref().and_then(|known| known.metadata.uid.clone());
        if known != mirror.metadata.uid {
            self.reporter = Reporter::new(self.context.client.clone());
        }
        let mut pod = core::Pod::clone(&self.desired_pod.pod);
        pod.status = mirror.status.clone();
        pod.metadata.generation = mirror.metadata.generation;
        self.desired_pod = DesiredPod::new(Arc::new(pod));
        self.mirror = Some(mirror);
    }

    /// The API object that is told the status.
    fn reports_to(&self) -> Option<Arc<core::Pod>> {
        match self.origin {
            Origin::Api => Some(self.desired_pod.pod.clone()),
            Origin::File => self.mirror.clone(),
        }
    }

    /// One round: plan, act, report. Returns when to look again.
    fn step(&mut self) -> Option<Timestamp> {
        let now = Timestamp::now();
        if self.local_state.stopping_since.is_none()
            && must_stop(&self.desired_pod, &self.record, &self.local_state, now)
        {
            self.local_state.stopping_since = Some(self.desired_pod.deleted.map_or(now, |_| now));
            // What failed before was a start: it must not delay the end, and nor must one that goes on.
            self.local_state.failures.clear();
            self.stop.cancel();
        }
        self.local_state.stopped |= self.local_state.stopping_since.is_some()
            && !self.record.anything_running()
            && !self.local_state.may_start();
        self.update_health();
        self.judge_resize();
        self.subscribe(self.local_state.stopping_since.is_some());
        let mut wake = None;
        // Seen before the removal begins: the last status is told first, also if there never was a sandbox.
        let being_removed = self.being_removed();
        if !self.removed {
            let plan = plan(&self.desired_pod, &self.record, &self.local_state, now);
            wake = plan.wake;
            plan.actions.into_iter().for_each(|action| self.start(action));
        }
        if self.gone {
            return wake;
        }
        // While the last traces are removed the status stays what it was before.
        if !self.removed
            && !being_removed
            && let Some(pod) = self.reports_to()
        {
            let node = NodeAddress { host_ips: self.context.node.config.node_ip_texts() };
            let status = status(&self.desired_pod, &self.record, &self.local_state, &node, now);
            self.reporter.want(Report { pod, status });
        }
        if self.removed {
            self.reporter.delete(self.desired_pod.pod.clone());
        }
        wake
    }

    /// Looks at the whole node only if the pod wants something else than it has.
    fn judge_resize(&mut self) {
        self.local_state.resize =
            match resize::pod_differs(&self.desired_pod, &self.record, &self.local_state) {
                false => Verdict::Allowed,
                true => {
                    let pods: Vec<_> =
                        self.context.node.pods.all().into_iter().map(DesiredPod::new).collect();
                    let NodeContext { config, machine, .. } = self.context.node.as_ref();
                    let own = |name: &str, read: fn(&str) -> Option<i64>| {
                        config.capacity.get(name).and_then(|n| read(n))
                    };
                    let node = resize::Capacity {
                        cpu: own("cpu", quantity::milli).unwrap_or(machine.cpus as i64 * 1000),
                        memory: own("memory", quantity::value).unwrap_or(machine.memory as i64),
                    };
                    resize::verdict(&self.desired_pod, pods.iter(), node)
                }
            };
    }

    /// Watches what the pod refers to, as long as it may run.
    fn subscribe(&mut self, stopping: bool) {
        let references = if stopping { References::default() } else { References::of(&self.desired_pod) };
        if !self.objects.covers(&references) {
            // What happened between the old watches and the new ones nobody saw.
            self.local_state.volumes.source_changed();
            self.objects = self.context.watches.subscribe(&self.desired_pod.namespace, references);
        }
    }

    /// Files may be out of date, and what failed for want of an object may work now.
    fn objects_changed(&mut self) {
        self.local_state.volumes.source_changed();
        let now = Timestamp::now();
        for failure in self.local_state.failures.values_mut() {
            if matches!(failure.reason, "CreateContainerConfigError" | "FailedMount") {
                failure.retry_at = now;
            }
        }
    }

    fn being_removed(&self) -> bool {
        self.desired_pod.deleted.is_some()
            && self.local_state.busy.contains(&Target::Pod)
            && self.record.sandboxes.iter().all(|sandbox| !sandbox.ready)
    }

    fn start(&mut self, action: Action) {
        debug!(pod = %self.desired_pod.full_name(), ?action, "starts");
        self.local_state.busy.insert(action.target());
        if let Action::KillContainer { id, .. } = &action {
            self.local_state.stopping.insert(id.clone());
        }
        let operation = Operation {
            context: self.context.clone(),
            desired_pod: self.desired_pod.clone(),
            record: self.record.clone(),
            stop: self.stop.clone(),
        };
        let context = self.context.clone();
        let sources = self.local_state.volumes.state();
        self.operations.spawn(async move {
            let begun = Instant::now();
            let result = caught(operation.carry_out(action.clone())).await;
            context.metrics.operations.note(action.name(), begun.elapsed(), result.is_err());
            Finished { action, sources, result }
        });
    }

    /// True if all that the operation has changed is known already.
    fn note(&mut self, finished: Finished) -> bool {
        let target = finished.action.target();
        self.local_state.busy.remove(&target);
        if let Action::KillContainer { id, .. } = &finished.action {
            self.local_state.stopping.remove(id);
        }
        match finished.result {
            Ok(done) => {
                let seen = done.started.is_some_and(|started| self.see(started, &finished.action));
                self.local_state.failures.remove(&target);
                if let Some(renew_at) = done.volumes {
                    self.local_state.volumes.wrote(finished.sources, renew_at);
                }
                match finished.action {
                    Action::ResizeContainer { id, resources, .. } => {
                        self.local_state.resized.insert(id, resources);
                    }
                    Action::Release => self.local_state.released = true,
                    Action::Remove => self.removed = true,
                    _ => {}
                }
                seen
            }
            Err(error) if error.reason == STOPPED => false,
            Err(error) => {
                self.local_state.end = self.local_state.end.take().or_else(|| refusal(&error));
                warn!(pod = %self.desired_pod.full_name(), reason = error.reason, message = error.message, "failed");
                let count = self.local_state.failures.get(&target).map_or(0, |failure| failure.count) + 1;
                let now = Timestamp::now();
                let retry_at = now + retry_delay(error.reason, count);
                let failure =
                    Failure { reason: error.reason, message: error.message, since: now, retry_at, count };
                self.local_state.failures.insert(target, failure);
                false
            }
        }
    }

    /// Adds what was started to what is known. Not if somebody has looked meanwhile: he may have seen more.
    fn see(&mut self, started: Started, action: &Action) -> bool {
        let record = &mut self.record;
        match started {
            Started::Sandbox(new) => {
                let is_news = new.ready && record.sandboxes.is_empty();
                if is_news {
                    record.sandboxes.push(new);
                }
                is_news
            }
            Started::Container(new) => {
                let known = record.containers.iter().any(|container| container.id == new.id);
                let discards = matches!(action, Action::StartContainer { discard: Some(_), .. });
                let is_news = matches!(new.state, ContainerState::Running { .. }) && !known && !discards;
                if is_news {
                    record.containers.push(*new);
                    record.sort();
                }
                is_news
            }
        }
    }

    /// What is known of the running containers: from probes, or by themselves where there are none.
    fn update_health(&mut self) {
        let records: Vec<_> = self.record.containers.iter().filter(|c| c.is_running()).cloned().collect();
        self.probes.retain(|id| records.iter().any(|record| record.id == id));
        self.local_state.health.clear();
        for record in records {
            let Some(spec) = self.desired_pod.container(&record.name).map(|c| c.spec.clone()) else {
                continue;
            };
            let starting = self.local_state.is_starting(&record);
            if let ContainerState::Running { started } = record.state
                && !starting
                && self.local_state.stopping_since.is_none()
            {
                let target = ProbeTarget {
                    runtime: self.context.node.runtime.clone(),
                    container: spec.clone(),
                    id: record.id.clone(),
                    started,
                    ip: self.pod_ip(),
                    origin: super::mesh::origin(&self.context.node.config, &self.desired_pod),
                    counted: self.probes.counted(),
                };
                self.probes.run(&target, self.desired_pod.reported_ready(&record.id));
            }
            let unhealthy = self.probes.failed(&record.id).map(|kind| {
                let why =
                    format!("Container {} failed {} probe, will be restarted", record.name, kind.name());
                let grace = kind.of(&spec).and_then(|probe| probe.termination_grace_period_seconds);
                (why, grace.map(|seconds| Duration::from_secs(seconds.max(0) as u64)))
            });
            let health = Health {
                started: !starting && self.probes.is_started(&record.id, &spec),
                ready: !starting && self.probes.is_ready(&record.id, &spec),
                unhealthy,
            };
            self.local_state.health.insert(record.id, health);
        }
    }

    fn probed(&mut self, result: &ProbeResult) {
        if !self.probes.note(result) {
            return;
        }
        if let Some(failure) = &result.failure {
            let message = format!("{} probe failed: {failure}", result.kind.title());
            let subject = subject(&self.desired_pod, Some(&result.container));
            self.context.recorder.record(subject, Severity::Warning, "Unhealthy", &message);
        }
    }

    fn pod_ip(&self) -> String {
        match self.desired_pod.host_network() {
            true => self.context.node.config.node_ip.to_string(),
            false => {
                let ips = self.record.sandbox().map(|sandbox| sandbox.ips.as_slice()).unwrap_or_default();
                ips.first().cloned().unwrap_or_default()
            }
        }
    }

    /// Asks the runtime; false if it does not answer.
    async fn refresh(&mut self) -> bool {
        match self.context.node.runtime.pod(&self.desired_pod.uid).await {
            Ok(record) => {
                self.record = self.with_messages(record).await;
                true
            }
            Err(error) => {
                warn!(pod = %self.desired_pod.full_name(), %error, "cannot see the pod's containers");
                false
            }
        }
    }
}

impl Worker {
    /// Adds what containers that ended have left in files.
    async fn with_messages(&self, mut record: PodRecord) -> PodRecord {
        let (known, desired_pod, seen) = (self.record.clone(), self.desired_pod.clone(), record.clone());
        if !left_messages(&record, &known) {
            // Nothing to read: only what is known is filled in.
            read_messages(&mut record, &known, &desired_pod);
            return record;
        }
        let read = tokio::task::spawn_blocking(move || {
            read_messages(&mut record, &known, &desired_pod);
            record
        });
        read.await.unwrap_or(seen)
    }
}

/// An operation that panics has failed like any other: its target must not be taken for busy for ever.
async fn caught(
    operation: impl Future<Output = Result<Done, OperationError>>,
) -> Result<Done, OperationError> {
    let panicked = |panic: Box<dyn Any + Send>| {
        OperationError::new(FAILED_SYNC, format!("the agent has panicked: {}", panic_message(&*panic)))
    };
    AssertUnwindSafe(operation).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(panic)))
}

/// Pulls wait ever longer; what depends on other objects is tried again soon.
fn retry_delay(reason: &str, count: u32) -> SignedDuration {
    let backoff = match reason {
        "ErrImagePull" => Backoff::millis(10_000, 300_000),
        "RunContainerError" => return SignedDuration::ZERO,
        _ => Backoff::millis(1_000, 20_000),
    };
    backoff.after(count).try_into().unwrap_or_default()
}

async fn sleep(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Timestamp>) {
    match at {
        Some(at) => {
            tokio::time::sleep(at.duration_since(Timestamp::now()).try_into().unwrap_or_default()).await
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
