//! What the probes of one pod have found out, and which of them should be running.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::ProbeKind;
use super::counts::Counted;
use super::task::{ProbeResult, ProbeTarget, probe};

const QUEUE: usize = 16;

/// The probes of one pod.
pub struct ProbeBoard {
    /// By container id.
    containers: BTreeMap<String, Probed>,
    counted: Arc<Counted>,
    sender: mpsc::Sender<ProbeResult>,
    results: mpsc::Receiver<ProbeResult>,
}

#[derive(Default)]
struct Probed {
    verdicts: BTreeMap<ProbeKind, bool>,
    tasks: BTreeMap<ProbeKind, JoinHandle<()>>,
}

impl Drop for Probed {
    fn drop(&mut self) {
        self.tasks.values().for_each(JoinHandle::abort);
    }
}

impl ProbeBoard {
    pub fn new(counted: Arc<Counted>) -> Self {
        let (sender, results) = mpsc::channel(QUEUE);
        ProbeBoard { containers: BTreeMap::new(), counted, sender, results }
    }

    /// Where outcomes of this pod's probes are counted.
    pub fn counted(&self) -> Arc<Counted> {
        self.counted.clone()
    }

    /// The next result; waits for ever if nothing is probed.
    pub async fn next(&mut self) -> ProbeResult {
        match self.results.recv().await {
            Some(result) => result,
            None => std::future::pending().await,
        }
    }

    /// LocalState a result. False if its container is not probed any more.
    pub fn note(&mut self, result: &ProbeResult) -> bool {
        let Some(probed) = self.containers.get_mut(&result.id) else { return false };
        if let Some(verdict) = result.verdict {
            probed.verdicts.insert(result.kind, verdict);
        }
        true
    }

    /// Keeps the probes of these containers only.
    pub fn retain(&mut self, is_running: impl Fn(&str) -> bool) {
        self.containers.retain(|id, _| is_running(id));
    }

    /// Starts the probes that are due. `was_ready`: the last known state of a container that this agent
    /// did not start, which stays until the probe says otherwise.
    pub fn run(&mut self, target: &ProbeTarget, was_ready: Option<bool>) {
        let probed = self.containers.entry(target.id.clone()).or_insert_with(|| {
            let mut probed = Probed::default();
            if was_ready == Some(true) {
                probed.verdicts.insert(ProbeKind::Startup, true);
                probed.verdicts.insert(ProbeKind::Readiness, true);
            }
            probed
        });
        let container = &target.container;
        let started = has_passed(container, &probed.verdicts, ProbeKind::Startup);
        for kind in ProbeKind::ALL {
            let Some(spec) = kind.of(container) else { continue };
            let due = (kind == ProbeKind::Startup) != started;
            if due && !probed.tasks.contains_key(&kind) {
                let task = probe(kind, spec.clone(), target.clone(), self.sender.clone());
                probed.tasks.insert(kind, tokio::spawn(task));
            }
        }
    }

    pub fn is_started(&self, id: &str, container: &core::Container) -> bool {
        self.verdicts(id).is_some_and(|verdicts| has_passed(container, verdicts, ProbeKind::Startup))
    }

    pub fn is_ready(&self, id: &str, container: &core::Container) -> bool {
        self.is_started(id, container)
            && self.verdicts(id).is_some_and(|verdicts| has_passed(container, verdicts, ProbeKind::Readiness))
    }

    /// The probe that says that this container must be replaced.
    pub fn failed(&self, id: &str) -> Option<ProbeKind> {
        let verdicts = self.verdicts(id)?;
        let fatal = [ProbeKind::Startup, ProbeKind::Liveness];
        fatal.into_iter().find(|kind| verdicts.get(kind) == Some(&false))
    }

    fn verdicts(&self, id: &str) -> Option<&BTreeMap<ProbeKind, bool>> {
        self.containers.get(id).map(|probed| &probed.verdicts)
    }
}

/// A probe that is not defined always succeeds.
fn has_passed(container: &core::Container, verdicts: &BTreeMap<ProbeKind, bool>, kind: ProbeKind) -> bool {
    kind.of(container).is_none() || verdicts.get(&kind) == Some(&true)
}
