//! Decides what to do next for a pod: `(desired_pod, runtime state, local_state, now) → actions`.
//!
//! Pure: no clock, no client, no runtime, no logging. Each call looks at everything anew, so it makes no
//! difference whether the agent or containerd was restarted in between.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::desired_pod::{ContainerSpec, DesiredPod, Kind};
use super::local_state::{ForcedTermination, LocalState, Target};
use super::resize::{self, Verdict};
use super::restart;
use crate::cri::{ContainerRecord, ContainerState, PodRecord};

/// The newest incarnation and the one before it, for `kubectl logs --previous`.
const INCARNATIONS_KEPT: usize = 2;
/// How often a resize that found no room is tried again.
const DEFERRED_RESIZE: SignedDuration = SignedDuration::from_secs(3);
/// Even without grace a container gets the chance to see its signal.
const SHORTEST_GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Stops what is left of earlier sandboxes and makes a new one.
    RunSandbox {
        attempt: u32,
        stop: Vec<String>,
    },
    StartContainer {
        name: String,
        sandbox_id: String,
        attempt: u32,
        /// Back-off that applies should this incarnation end.
        restart_delay: Duration,
        /// A container that was created but never started, and stands in the way.
        discard: Option<String>,
    },
    KillContainer {
        name: String,
        id: String,
        grace: Duration,
        why: String,
    },
    /// Gives a running container the resources of its spec.
    ResizeContainer {
        name: String,
        id: String,
        resources: String,
    },
    RemoveContainer {
        name: String,
        id: String,
    },
    StopSandbox {
        id: String,
    },
    /// Brings files in volumes up to date.
    SyncVolumes,
    /// Unmounts volumes and removes cgroups of a pod that ended. Its containers stay for their logs.
    Release,
    /// Removes everything that is left of a deleted pod, then the API object.
    Remove,
}

impl Action {
    pub fn target(&self) -> Target {
        match self {
            Action::StartContainer { name, .. }
            | Action::KillContainer { name, .. }
            | Action::ResizeContainer { name, .. }
            | Action::RemoveContainer { name, .. } => Target::Container(name.clone()),
            Action::SyncVolumes => Target::Volumes,
            Action::RunSandbox { .. } | Action::StopSandbox { .. } | Action::Release | Action::Remove => {
                Target::Pod
            }
        }
    }
}

impl Action {
    /// Its name in the agent's metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Action::RunSandbox { .. } => "run_podsandbox",
            Action::StartContainer { .. } => "start_container",
            Action::KillContainer { .. } => "stop_container",
            Action::ResizeContainer { .. } => "update_container_resources",
            Action::RemoveContainer { .. } => "remove_container",
            Action::StopSandbox { .. } => "stop_podsandbox",
            Action::SyncVolumes => "sync_volumes",
            Action::Release => "release",
            Action::Remove => "remove_podsandbox",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// At most one per target.
    pub actions: Vec<Action>,
    /// When to look again even if nothing happens.
    pub wake: Option<Timestamp>,
}

pub fn plan(desired_pod: &DesiredPod, record: &PodRecord, local_state: &LocalState, now: Timestamp) -> Plan {
    let mut planner = Planner { desired_pod, record, local_state, now, plan: Plan::default() };
    if must_stop(desired_pod, record, local_state, now) {
        planner.stop();
    } else {
        planner.wake_at(deadline(desired_pod));
        planner.run();
    }
    planner.plan
}

/// Nothing of this pod may start any more.
pub fn must_stop(
    desired_pod: &DesiredPod,
    record: &PodRecord,
    local_state: &LocalState,
    now: Timestamp,
) -> bool {
    desired_pod.deleted.is_some()
        || desired_pod.terminal
        || end(desired_pod, local_state, now).is_some()
        || finished(desired_pod, record)
}

/// Why the pod must end although nobody deleted it.
pub fn end(desired_pod: &DesiredPod, local_state: &LocalState, now: Timestamp) -> Option<ForcedTermination> {
    if local_state.end.is_some() {
        return local_state.end.clone();
    }
    deadline(desired_pod).filter(|deadline| *deadline <= now).map(|_| ForcedTermination {
        reason: "DeadlineExceeded".to_owned(),
        at_once: false,
        rejected: false,
        message: "Pod was active on the node longer than the specified deadline".to_owned(),
    })
}

/// All containers have ended and none will be restarted.
pub fn finished(desired_pod: &DesiredPod, record: &PodRecord) -> bool {
    let over = |spec: &ContainerSpec| {
        let code = record.container(&spec.spec.name).and_then(ContainerRecord::exit_code);
        code.filter(|code| !spec.restarts_after(*code))
    };
    if desired_pod.of_kind(Kind::Init).any(|spec| over(spec).is_some_and(|code| code != 0)) {
        return !any_main_started(desired_pod, record);
    }
    desired_pod.of_kind(Kind::Main).all(|spec| over(spec).is_some())
}

fn any_main_started(desired_pod: &DesiredPod, record: &PodRecord) -> bool {
    desired_pod.of_kind(Kind::Main).any(|spec| record.container(&spec.spec.name).is_some())
}

fn deadline(desired_pod: &DesiredPod) -> Option<Timestamp> {
    let seconds = desired_pod.spec()?.active_deadline_seconds?;
    let start = desired_pod.pod.status.as_ref()?.start_time.as_ref()?.0;
    start.checked_add(SignedDuration::from_secs(seconds)).ok()
}

struct Planner<'a> {
    desired_pod: &'a DesiredPod,
    record: &'a PodRecord,
    local_state: &'a LocalState,
    now: Timestamp,
    plan: Plan,
}

impl Planner<'_> {
    /// Main containers end first, then the sidecars in reverse order, then the sandbox, then all the rest.
    fn stop(&mut self) {
        let running: Vec<_> = self.record.containers.iter().filter(|c| c.is_running()).collect();
        let sidecar = |c: &&&ContainerRecord| {
            self.desired_pod.container(&c.name).is_some_and(|spec| spec.kind == Kind::Sidecar)
        };
        let (sidecars, others): (Vec<_>, Vec<_>) = running.iter().partition(sidecar);
        if !others.is_empty() {
            others.into_iter().for_each(|c| self.kill(c, self.grace_left(), ""));
            return;
        }
        let started_last = self.desired_pod.of_kind(Kind::Sidecar).rev();
        let next = started_last.filter_map(|spec| sidecars.iter().find(|c| c.name == spec.spec.name)).next();
        if let Some(sidecar) = next {
            self.kill(sidecar, self.grace_left(), "");
            return;
        }
        // Something is still being started or killed: whatever comes of it is seen in the next round.
        if !self.local_state.busy.is_empty() {
            return;
        }
        if let Some(sandbox) = self.record.sandboxes.iter().find(|sandbox| sandbox.ready) {
            return self.push(Action::StopSandbox { id: sandbox.id.clone() });
        }
        match self.desired_pod.deleted {
            Some(_) => self.push(Action::Remove),
            None if !self.local_state.released => self.push(Action::Release),
            None => {}
        }
    }

    fn grace_left(&self) -> Duration {
        if self.local_state.end.as_ref().is_some_and(|end| end.at_once) {
            return SHORTEST_GRACE;
        }
        let since = self.local_state.stopping_since.unwrap_or(self.now);
        let passed = self.now.duration_since(since).unsigned_abs();
        self.desired_pod.grace.saturating_sub(passed).max(SHORTEST_GRACE)
    }

    fn run(&mut self) {
        let Some(sandbox) = self.record.sandbox() else { return self.run_sandbox() };
        let sandbox_id = sandbox.id.clone();
        let volumes = &self.local_state.volumes;
        self.wake_at(volumes.renew_at.filter(|at| *at > self.now));
        if !volumes.fresh() || volumes.renew_at.is_some_and(|at| at <= self.now) {
            self.push(Action::SyncVolumes);
        }
        let stale = self.record.containers.iter().filter(|c| c.is_running() && c.sandbox_id != sandbox_id);
        stale.for_each(|c| self.kill(c, SHORTEST_GRACE, "Stopping container: its sandbox is gone"));
        if self.initialize(&sandbox_id) {
            for spec in self.desired_pod.of_kind(Kind::Main).chain(self.desired_pod.of_kind(Kind::Ephemeral))
            {
                self.keep_running(spec, &sandbox_id);
            }
        }
        self.forget_old_incarnations();
    }

    fn run_sandbox(&mut self) {
        let running: Vec<_> = self.record.containers.iter().filter(|c| c.is_running()).collect();
        if !running.is_empty() {
            running
                .into_iter()
                .for_each(|c| self.kill(c, SHORTEST_GRACE, "Stopping container: its sandbox is gone"));
            return;
        }
        let attempt = self.record.sandboxes.first().map_or(0, |sandbox| sandbox.attempt + 1);
        let stop = self.record.sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect();
        self.push(Action::RunSandbox { attempt, stop });
    }

    /// Brings the init containers forward. True once the main containers may start.
    fn initialize(&mut self, sandbox_id: &str) -> bool {
        let started = |spec: &&ContainerSpec| self.in_sandbox(&spec.spec.name, sandbox_id).is_some();
        let done = self.desired_pod.of_kind(Kind::Main).any(|spec| started(&spec));
        for spec in self.desired_pod.containers.iter() {
            match spec.kind {
                // Init containers of a pod that got past them are never run again in this sandbox.
                Kind::Init if done => {}
                Kind::Init => {
                    let code = self.in_sandbox(&spec.spec.name, sandbox_id).and_then(|c| c.exit_code());
                    if code != Some(0) {
                        self.keep_running(spec, sandbox_id);
                        return false;
                    }
                }
                Kind::Sidecar => {
                    self.keep_running(spec, sandbox_id);
                    if !done && !self.has_started(spec, sandbox_id) {
                        return false;
                    }
                }
                Kind::Main | Kind::Ephemeral => {}
            }
        }
        true
    }

    fn has_started(&self, spec: &ContainerSpec, sandbox_id: &str) -> bool {
        let container = self.in_sandbox(&spec.spec.name, sandbox_id).filter(|c| c.is_running());
        container.is_some_and(|c| self.local_state.health.get(&c.id).is_some_and(|health| health.started))
    }

    /// The newest incarnation, if it belongs to this sandbox.
    fn in_sandbox(&self, name: &str, sandbox_id: &str) -> Option<&ContainerRecord> {
        self.record.container(name).filter(|c| c.sandbox_id == sandbox_id)
    }

    fn keep_running(&mut self, spec: &ContainerSpec, sandbox_id: &str) {
        let name = &spec.spec.name;
        let newest = self.record.container(name);
        let Some(current) = newest.filter(|c| c.sandbox_id == sandbox_id) else {
            let attempt = self.next_attempt(newest, name);
            let delay = newest.map_or(Duration::ZERO, restart::next_delay);
            return self.start(spec, sandbox_id, attempt, delay, None);
        };
        match &current.state {
            ContainerState::Created => {
                let discard = Some(current.id.clone());
                self.start(spec, sandbox_id, current.attempt, current.restart_delay, discard);
            }
            // The runtime lost it, as one that was killed between making and starting it: it says what became of it once it
            // is told to end it, and nothing else would ever happen.
            ContainerState::Unknown => {
                self.kill(
                    current,
                    self.desired_pod.grace,
                    "Container is in an unknown state, will be restarted",
                );
            }
            ContainerState::Running { .. } => {
                let unhealthy = self.local_state.health.get(&current.id).and_then(|h| h.unhealthy.clone());
                if let Some((why, grace)) = unhealthy {
                    self.kill(current, grace.unwrap_or(self.desired_pod.grace), &why);
                } else if current.hash != spec.hash {
                    self.kill(
                        current,
                        self.desired_pod.grace,
                        &format!("Container {} definition changed, will be restarted", current.name),
                    );
                } else if resize::differs(spec, current, self.local_state) {
                    self.resize(spec, current);
                }
            }
            ContainerState::Exited { code, .. } => {
                let changed = current.hash != spec.hash && spec.kind != Kind::Ephemeral;
                if !changed && !spec.restarts_after(*code) {
                    return;
                }
                let at = restart::not_before(current);
                if !changed && at > self.now {
                    return self.wake_at(Some(at));
                }
                self.start(spec, sandbox_id, current.attempt + 1, restart::next_delay(current), None);
            }
        }
    }

    /// What the node cannot give is looked at again when pods went, and once in a while.
    fn resize(&mut self, spec: &ContainerSpec, current: &ContainerRecord) {
        let (name, id) = (current.name.clone(), current.id.clone());
        match &self.local_state.resize {
            Verdict::Infeasible(_) => {}
            Verdict::Deferred(_) => self.wake_at(self.now.checked_add(DEFERRED_RESIZE).ok()),
            Verdict::Allowed if resize::wants_restart(spec, resize::applied(current, self.local_state)) => {
                let why = format!("Container {name} resize requires restart");
                self.kill(current, self.desired_pod.grace, &why);
            }
            Verdict::Allowed => {
                self.push(Action::ResizeContainer { name, id, resources: spec.resources.clone() });
            }
        }
    }

    fn next_attempt(&self, newest: Option<&ContainerRecord>, name: &str) -> u32 {
        match newest {
            Some(container) => container.attempt + 1,
            None => self.desired_pod.reported_restarts(name).map_or(0, |count| count + 1),
        }
    }

    fn start(
        &mut self,
        spec: &ContainerSpec,
        sandbox_id: &str,
        attempt: u32,
        restart_delay: Duration,
        discard: Option<String>,
    ) {
        let (name, sandbox_id) = (spec.spec.name.clone(), sandbox_id.to_owned());
        self.push(Action::StartContainer { name, sandbox_id, attempt, restart_delay, discard });
    }

    fn kill(&mut self, container: &ContainerRecord, grace: Duration, why: &str) {
        let (name, id) = (container.name.clone(), container.id.clone());
        self.push(Action::KillContainer { name, id, grace, why: why.to_owned() });
    }

    fn forget_old_incarnations(&mut self) {
        for spec in &self.desired_pod.containers {
            let name = &spec.spec.name;
            let incarnations = self.record.containers.iter().filter(|c| &c.name == name);
            // One at a time is enough: each start makes one too many.
            if let Some(old) = incarnations.skip(INCARNATIONS_KEPT).last().filter(|c| !c.is_running()) {
                self.push(Action::RemoveContainer { name: name.clone(), id: old.id.clone() });
            }
        }
    }

    /// Adds an action unless its target is busy, has one already, or failed a short time ago.
    fn push(&mut self, action: Action) {
        let target = action.target();
        let taken = self.plan.actions.iter().any(|other| other.target() == target);
        if taken || self.local_state.busy.contains(&target) {
            return;
        }
        match self.local_state.failures.get(&target) {
            Some(failure) if failure.retry_at > self.now => self.wake_at(Some(failure.next_change(self.now))),
            _ => self.plan.actions.push(action),
        }
    }

    fn wake_at(&mut self, at: Option<Timestamp>) {
        self.plan.wake = match (self.plan.wake, at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
