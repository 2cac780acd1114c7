//! The order of decisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{Action, Plan};

use super::{Observed, claims, collisions, identity, selector, status, update};
use crate::claim::claim;
use crate::history::{History, name, template_of};
use crate::pods;
use crate::template::{creation_events, deletion_events};

/// On revisions: the hash in their name.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// At most one pod in this time is made for an ordinal: one that fails at once is not replaced at once.
const FAILED_PAUSE: SignedDuration = SignedDuration::from_secs(10);
/// Pods that are made in one round at most: a set may ask for more than there is memory to plan.
const BURST: usize = 500;

/// A set with its pods by ordinal, and the plan that is being made for it.
pub(super) struct Round<'a> {
    pub seen: &'a Observed,
    pub set: &'a StatefulSet,
    pub pods: BTreeMap<i32, Arc<Pod>>,
    /// The revision that pods below the partition have.
    pub current: Arc<ControllerRevision>,
    /// That of the template as it is now.
    pub newest: Arc<ControllerRevision>,
    pub now: Timestamp,
    pub plan: Plan,
}

pub(super) fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let set = &*seen.set;
    let mut plan = Plan::default();
    let claimed = claim(set, &selector(set), &seen.pods);
    plan.actions = claimed.actions;
    let history = History::new(
        set,
        &selector(set),
        &set.spec.template,
        HASH_LABEL,
        collisions(set),
        &seen.revisions,
        &mut plan,
    );
    if history.has_collided {
        let mut status = set.status.clone().unwrap_or_default();
        status.collision_count = Some(collisions(set) + 1);
        plan.status(set, StatefulSet { status: Some(status), ..set.clone() });
        return plan;
    }
    let Some(newest) = history.current().cloned() else { return plan };
    let known = set.status.as_ref().and_then(|s| s.current_revision.as_deref());
    let current = known.and_then(|name| history.by_name(name)).unwrap_or(&newest).clone();
    let pods =
        claimed.mine.iter().filter_map(|pod| Some((identity::ordinal(set, pod)?, pod.clone()))).collect();
    let mut round = Round { seen, set, pods, current, newest, now, plan };
    if set.metadata.deletion_timestamp.is_none() && !selector(set).is_everything() {
        if manage(&mut round) {
            update::roll(&mut round);
        }
        let used = |revision: &ControllerRevision| {
            let is = Some(name(revision));
            is == Some(name(&round.current))
                || round.pods.values().any(|pod| identity::revision_of(pod) == is)
        };
        history.truncate(set.spec.revision_history_limit.unwrap_or(10), used, &mut round.plan);
    }
    status::tell(&mut round);
    round.plan
}

impl Round<'_> {
    pub fn ordinals(&self) -> std::ops::Range<i32> {
        let start = self.set.spec.ordinals.as_ref().and_then(|o| o.start).unwrap_or(0).max(0);
        start..start.saturating_add(self.set.spec.replicas.unwrap_or(1).max(0))
    }

    /// One after the other, each waiting for the one before.
    fn is_ordered(&self) -> bool {
        self.set.spec.pod_management_policy.as_deref() != Some("Parallel")
    }

    pub fn is_healthy(&self, pod: &Pod) -> bool {
        pods::is_active(pod)
            && pods::is_available(pod, self.set.spec.min_ready_seconds.unwrap_or(0), self.now)
    }

    pub fn delete(&mut self, pod: &Pod) {
        self.plan.act(Action::delete(pod).telling(deletion_events(self.set)));
    }

    /// A pod of a rollout that was given up and never worked: neither what is wanted nor what was.
    fn is_stranded(&self, pod: &Pod) -> bool {
        let revision = identity::revision_of(pod);
        let is_known = [&self.current, &self.newest].iter().any(|known| revision == Some(name(known)));
        !is_known && !self.is_healthy(pod) && update::rolls(self)
    }

    fn replace_failed(&mut self, pod: &Pod) {
        let due = pods::created(pod).map_or(self.now, |made| made + FAILED_PAUSE);
        if due > self.now {
            self.plan.again_at(due, self.now);
        } else {
            self.delete(pod);
        }
    }

    fn create(&mut self, ordinal: i32) {
        if !claims::ensure(self.seen, ordinal, &mut self.plan) {
            return;
        }
        let revision = if update::stays_behind(self, ordinal) { &self.current } else { &self.newest };
        // The form of the template when the revision was made.
        let template: PodTemplateSpec =
            template_of(revision).unwrap_or_else(|| self.set.spec.template.clone());
        let pod = identity::pod(self.set, &template, name(revision), ordinal);
        self.plan.act(Action::create(&pod).telling(creation_events(self.set)));
    }
}

/// Brings the right number of pods about; true if all are there and well enough to think of updates.
fn manage(round: &mut Round<'_>) -> bool {
    let ordered = round.is_ordered();
    let mut missing = 0;
    for ordinal in round.ordinals() {
        let pod = round.pods.get(&ordinal).cloned();
        missing += usize::from(pod.is_none());
        // In order, the first that is missing has ended the round.
        if missing > BURST {
            break;
        }
        claims::tie(round.seen, ordinal, pod.as_deref(), false, &mut round.plan);
        let settled = match pod {
            None => {
                round.create(ordinal);
                false
            }
            Some(pod) if pods::is_terminating(&pod) => false,
            // It will come back under the same name.
            Some(pod) if pods::is_finished(&pod) => {
                round.replace_failed(&pod);
                false
            }
            // Waiting for it would be waiting forever.
            Some(pod) if round.is_stranded(&pod) => {
                round.delete(&pod);
                false
            }
            Some(pod) => {
                claims::ensure(round.seen, ordinal, &mut round.plan);
                round.is_healthy(&pod)
            }
        };
        if !settled && ordered {
            return false;
        }
    }
    remove_condemned(round, ordered) && missing <= BURST
}

/// Pods beyond the wanted ordinals, the highest first.
fn remove_condemned(round: &mut Round<'_>, ordered: bool) -> bool {
    let wanted = round.ordinals();
    let condemned: Vec<(i32, Arc<Pod>)> = round
        .pods
        .iter()
        .rev()
        .filter(|(ordinal, _)| !wanted.contains(ordinal))
        .map(|(ordinal, pod)| (*ordinal, pod.clone()))
        .collect();
    let lowest_unhealthy = condemned.iter().rev().find(|(_, pod)| !round.is_healthy(pod)).map(|(o, _)| *o);
    for (ordinal, pod) in &condemned {
        claims::tie(round.seen, *ordinal, Some(pod), true, &mut round.plan);
        if pods::is_terminating(pod) {
            if ordered {
                return false;
            }
            continue;
        }
        // In order: one that is ill is only removed when no other is ill below it.
        if ordered && !round.is_healthy(pod) && lowest_unhealthy != Some(*ordinal) {
            return false;
        }
        round.delete(pod);
        if ordered {
            return false;
        }
    }
    true
}
