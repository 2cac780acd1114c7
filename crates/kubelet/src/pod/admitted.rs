//! The pods that this node has admitted, and its judgement on those that come.
//!
//! A pod is judged once. One that an agent of this node has accepted before, which its status or the runtime tells, is
//! never refused: not by a restart, and not because the node has changed since. It never starts or ends anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use tracing::{info, warn};

use super::desired_pod::identity;
use super::local_state::ForcedTermination;
use super::predicates::{Footprint, Rejection, Victims, admit};
use crate::context::PodContext;

#[derive(Default)]
pub struct AdmittedPods {
    /// By UID, without those that have ended.
    footprints: BTreeMap<String, Footprint>,
    /// What the runtime had when the agent started; `None` if it did not say.
    found: Option<BTreeSet<String>>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    /// These must end to make room.
    Admitted(Victims),
    Rejected(Rejection),
    /// The API server does not say what the node looks like now: ask again.
    Deferred,
}

impl AdmittedPods {
    pub fn found(&mut self, uids: Option<BTreeSet<String>>) {
        self.found = uids;
    }

    /// Whether an agent of this node has accepted the pod before, or the pod is past being refused.
    pub fn is_old(&self, pod: &core::Pod) -> bool {
        let status = pod.status.as_ref();
        // The first thing that an agent says of a pod that it accepts.
        status.is_some_and(|status| status.start_time.is_some())
            || pod.metadata.deletion_timestamp.is_some()
            || is_terminal(pod)
            || self.found.as_ref().is_some_and(|found| found.contains(&identity(pod)))
    }

    /// Judges a pod that is new to this agent, and counts it if it is admitted.
    pub async fn judge(&mut self, pod: &core::Pod, context: &PodContext) -> Judgement {
        if self.is_old(pod) {
            self.count(pod);
            return Judgement::Admitted(Victims::new());
        }
        let judgement = match self.ask(pod, context) {
            Ok(victims) => Judgement::Admitted(victims),
            // What was seen of the node may be older than the pod.
            Err(_) => self.judge_anew(pod, context).await,
        };
        if matches!(judgement, Judgement::Admitted(_)) {
            self.count(pod);
        }
        judgement
    }

    async fn judge_anew(&self, pod: &core::Pod, context: &PodContext) -> Judgement {
        let node = &context.node.config.node_name;
        if let Err(error) = context.node_cache.refresh(context.client.clone(), node).await {
            warn!(%error, pod = pod.metadata.name, "the pod's admission waits for the state of the node");
            return Judgement::Deferred;
        }
        match self.ask(pod, context) {
            Ok(victims) => Judgement::Admitted(victims),
            Err(rejection) => {
                let Rejection { reason, message } = &rejection;
                info!(
                    pod = pod.metadata.name,
                    namespace = pod.metadata.namespace,
                    reason,
                    message,
                    "rejected"
                );
                Judgement::Rejected(rejection)
            }
        }
    }

    fn ask(&self, pod: &core::Pod, context: &PodContext) -> Result<Victims, Rejection> {
        let uid = identity(pod);
        let others: Vec<_> =
            self.footprints.iter().filter(|(other, _)| **other != uid).map(|(_, f)| f).collect();
        admit(pod, &others, &context.node_cache.view(&context.node.config, &context.node.machine))
    }

    /// A static pod is judged without the API server, which it may be a part of.
    pub fn judge_static(&mut self, pod: &core::Pod, context: &PodContext) -> Result<Victims, Rejection> {
        // A runtime that does not answer may well have it.
        let may_run = self.found.as_ref().is_none_or(|found| found.contains(&identity(pod)));
        let judged = if may_run { Ok(Victims::new()) } else { self.ask(pod, context) };
        if judged.is_ok() {
            self.count(pod);
        }
        judged
    }

    /// A new version of a pod: it may ask for something else now, or have ended.
    pub fn update(&mut self, pod: &core::Pod) {
        if self.footprints.contains_key(&identity(pod)) {
            self.count(pod);
        }
    }

    pub fn remove(&mut self, uid: &str) {
        self.footprints.remove(uid);
    }

    fn count(&mut self, pod: &core::Pod) {
        match is_terminal(pod) {
            true => drop(self.footprints.remove(&identity(pod))),
            false => drop(self.footprints.insert(identity(pod), Footprint::of(pod))),
        }
    }
}

pub fn is_terminal(pod: &core::Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The order in which pods that came together are judged: those that were here before, then the oldest.
pub fn in_order(admitted: &AdmittedPods, pods: &mut [Arc<core::Pod>]) {
    pods.sort_by_cached_key(|pod| {
        (!admitted.is_old(pod), pod.metadata.creation_timestamp.as_ref().map(|time| time.0), identity(pod))
    });
}

/// The end of a pod that was never admitted.
pub fn rejected(rejection: &Rejection) -> ForcedTermination {
    ForcedTermination {
        reason: rejection.reason.clone(),
        message: format!("Pod was rejected: {}", rejection.message),
        at_once: true,
        rejected: true,
    }
}

/// The end of a pod that makes room for a critical one.
pub fn preempted() -> ForcedTermination {
    ForcedTermination {
        reason: PREEMPTING.to_owned(),
        message: PREEMPTED.to_owned(),
        at_once: false,
        rejected: false,
    }
}

pub const PREEMPTING: &str = "Preempting";
pub const PREEMPTED: &str = "Preempted in order to admit critical pod";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, created: &str, status: Value) -> Arc<core::Pod> {
        let metadata = json!({"uid": uid, "creationTimestamp": created});
        let pod = json!({"metadata": metadata, "spec": {"containers": []}, "status": status});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn pods_accepted_before_come_first_then_the_oldest() {
        let mut admitted = AdmittedPods::default();
        admitted.found(Some(["in-runtime".to_owned()].into()));
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let started = json!({"startTime": late, "phase": "Running"});
        let mut pods = [
            pod("young", late, json!({})),
            pod("old", early, json!({})),
            pod("in-runtime", late, json!({})),
            pod("reported", late, started),
        ];
        in_order(&admitted, &mut pods);
        let order: Vec<_> = pods.iter().map(|pod| identity(pod)).collect();
        assert_eq!(order, ["in-runtime", "reported", "old", "young"]);
    }

    #[test]
    fn ended_pod_takes_nothing() {
        let mut admitted = AdmittedPods::default();
        let running = pod("a", "2026-01-01T00:00:00Z", json!({"phase": "Running"}));
        admitted.count(&running);
        admitted.update(&pod("b", "2026-01-01T00:00:00Z", json!({"phase": "Running"})));
        assert_eq!(
            admitted.footprints.keys().collect::<Vec<_>>(),
            ["a"],
            "only those that were admitted count"
        );
        admitted.update(&pod("a", "2026-01-01T00:00:00Z", json!({"phase": "Succeeded"})));
        assert!(admitted.footprints.is_empty());
    }
}
