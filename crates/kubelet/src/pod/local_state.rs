//! What the agent remembers of a pod and the runtime cannot tell. Lost with the agent, and found again.

use std::collections::{BTreeMap, BTreeSet};

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::resize::Verdict;
use crate::cri::ContainerRecord;

/// How long a failed pull is shown as such before it is shown as waiting.
const PULL_ERROR_SHOWN: SignedDuration = SignedDuration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalState {
    /// When this agent first saw the pod.
    pub accepted: Option<Timestamp>,
    /// Operations under way. The plan leaves their targets alone.
    pub busy: BTreeSet<Target>,
    /// Ids of containers that are being stopped: until they end they serve, also those that will be replaced.
    pub stopping: BTreeSet<String>,
    /// Operations that failed, and when to try again.
    pub failures: BTreeMap<Target, Failure>,
    /// By container id.
    pub health: BTreeMap<String, Health>,
    /// Why the pod must end although nobody deleted it.
    pub end: Option<ForcedTermination>,
    /// When the agent first saw that the pod must end.
    pub stopping_since: Option<Timestamp>,
    /// The pod must end, nothing of it runs, and no start is under way any more. Once true, it stays true.
    pub stopped: bool,
    pub volumes: VolumeState,
    /// Resources that this agent gave to running containers, by container id.
    pub resized: BTreeMap<String, String>,
    /// Whether the node can give what the pod asks for now.
    pub resize: Verdict,
    /// Volumes and cgroups of a pod that ended are gone.
    pub released: bool,
}

impl LocalState {
    /// An operation is under way that may start, or has started, something of the pod.
    pub fn may_start(&self) -> bool {
        !self.stopped && self.busy.iter().any(|target| *target != Target::Volumes)
    }

    /// The container runs and its start is not yet done: a postStart hook is. Probes begin after that.
    pub fn is_starting(&self, container: &ContainerRecord) -> bool {
        self.stopping_since.is_none()
            && !self.stopping.contains(&container.id)
            && self.busy.contains(&Target::Container(container.name.clone()))
    }
}

/// How far the files in volumes follow what they are made of: objects, labels, tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeState {
    /// Counts changes of what they are made of.
    changes: u64,
    /// The count when an operation of this agent that wrote them began.
    written: Option<u64>,
    /// When a token in them must be renewed.
    pub renew_at: Option<Timestamp>,
}

impl VolumeState {
    /// Written by this agent, and nothing they are made of changed since that began.
    pub fn fresh(&self) -> bool {
        self.written == Some(self.changes)
    }

    /// What an operation that begins now will show.
    pub fn state(&self) -> u64 {
        self.changes
    }

    pub fn source_changed(&mut self) {
        self.changes += 1;
    }

    /// An operation that began at this state is done. It may have read sources that changed meanwhile, before
    /// they did.
    pub fn wrote(&mut self, state: u64, renew_at: Option<Timestamp>) {
        self.written = self.written.max(Some(state));
        self.renew_at = renew_at;
    }
}

/// What an operation works on. One operation per target at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The sandbox, the volumes, the pod as a whole.
    Pod,
    /// Files in volumes of a running pod.
    Volumes,
    Container(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Kubernetes' name for it: `ErrImagePull`, `CreateContainerConfigError`.
    pub reason: &'static str,
    pub message: String,
    pub since: Timestamp,
    pub retry_at: Timestamp,
    /// How often it failed in a row, from 1.
    pub count: u32,
}

impl Failure {
    /// Reason and message as the container's status shows them: a failed pull soon becomes a back-off.
    pub fn shown(&self, image: &str, now: Timestamp) -> (&'static str, String) {
        match self.reason {
            "ErrImagePull" if self.turns_into_back_off() <= now => {
                let message = format!("Back-off pulling image \"{image}\": ErrImagePull: {}", self.message);
                ("ImagePullBackOff", message)
            }
            reason => (reason, self.message.clone()),
        }
    }

    /// When to look again although it is not time to try again.
    pub fn next_change(&self, now: Timestamp) -> Timestamp {
        let turn = self.turns_into_back_off();
        if self.reason == "ErrImagePull" && turn > now { turn.min(self.retry_at) } else { self.retry_at }
    }

    fn turns_into_back_off(&self) -> Timestamp {
        self.since.checked_add(PULL_ERROR_SHOWN).unwrap_or(Timestamp::MAX)
    }
}

/// What probes and hooks found out about a running container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// The postStart hook is done and the startup probe succeeded.
    pub started: bool,
    pub ready: bool,
    /// Why it must be replaced, and how long it may take to end if not as long as usual.
    pub unhealthy: Option<(String, Option<Duration>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForcedTermination {
    pub reason: String,
    pub message: String,
    /// The node cannot wait for as long as the pod may usually take.
    pub at_once: bool,
    /// The pod was never admitted: nothing of it was made.
    pub rejected: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_that_is_being_stopped_is_not_starting() {
        let check = |busy: Option<&str>, stopping: Option<&str>, want: bool| {
            let container = ContainerRecord {
                id: "c".into(),
                sandbox_id: "s".into(),
                name: "main".into(),
                attempt: 0,
                state: crate::cri::ContainerState::Running { started: Timestamp::UNIX_EPOCH },
                image: String::new(),
                image_id: String::new(),
                hash: String::new(),
                restart_delay: Duration::ZERO,
                resources: String::new(),
                log_path: String::new(),
                termination_message: String::new(),
            };
            let local_state = LocalState {
                busy: busy.map(|name| Target::Container(name.to_owned())).into_iter().collect(),
                stopping: stopping.map(str::to_owned).into_iter().collect(),
                ..LocalState::default()
            };
            assert_eq!(local_state.is_starting(&container), want, "{busy:?} {stopping:?}");
        };
        check(None, None, false);
        check(Some("other"), None, false);
        check(Some("main"), None, true);
        check(Some("main"), Some("c"), false);
        check(Some("main"), Some("former"), true);
    }

    #[test]
    fn a_change_during_the_writing_of_files_is_not_forgotten() {
        let mut volumes = VolumeState::default();
        assert!(!volumes.fresh(), "a new agent does not know");
        let first = volumes.state();
        volumes.source_changed();
        volumes.wrote(first, None);
        assert!(!volumes.fresh(), "the source changed after it may have been read");
        let second = volumes.state();
        volumes.wrote(second, None);
        assert!(volumes.fresh());
        volumes.wrote(first, None);
        assert!(volumes.fresh(), "a late end of an early operation takes nothing back");
        volumes.source_changed();
        assert!(!volumes.fresh());
    }
}
