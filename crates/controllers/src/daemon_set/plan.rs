//! Node by node: who is missing, who is too much, who is of yesterday.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{Action, EventRecord, Plan, key_of};

use super::{Observed, collisions, placement, selector, status, update};
use crate::claim::claim;
use crate::history::{History, REVISION_LABEL};
use crate::pods;
use crate::template::{creation_events, deletion_events, pod_for};

/// At most one daemon in this time is made on a node: one that fails at once is not replaced at once.
const FAILED_PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// A node with the pods of the set that are on it.
pub(super) struct Place {
    pub node: String,
    pub should_run: bool,
    pub may_stay: bool,
    pub pods: Vec<Arc<Pod>>,
}

/// All that is known, and the plan that is being made.
pub(super) struct Round<'a> {
    pub set: &'a DaemonSet,
    pub places: Vec<Place>,
    /// The label value of pods of the current template.
    pub hash: String,
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
        REVISION_LABEL,
        collisions(set),
        &seen.revisions,
        &mut plan,
    );
    if history.has_collided {
        let mut status = set.status.clone().unwrap_or_default();
        status.collision_count = Some(collisions(set) + 1);
        plan.status(set, DaemonSet { status: Some(status), ..set.clone() });
        return plan;
    }
    let labels = history.current().and_then(|revision| revision.metadata.labels.clone());
    let Some(hash) = labels.and_then(|labels| labels.get(REVISION_LABEL).cloned()) else { return plan };
    let places = places(seen, &claimed.mine);
    let mut round = Round { set, places, hash, now, plan };
    if set.metadata.deletion_timestamp.is_none() && !selector(set).is_everything() {
        manage(&mut round);
        if round.plan.actions.is_empty() {
            update::roll(&mut round);
        }
        let in_use = |revision: &k8s_openapi::api::apps::v1::ControllerRevision| {
            let hash = revision.metadata.labels.as_ref().and_then(|l| l.get(REVISION_LABEL));
            claimed.mine.iter().any(|pod| hash_of(pod) == hash.map(String::as_str))
        };
        let limit = set.spec.revision_history_limit.unwrap_or(10);
        history.truncate(limit, in_use, &mut round.plan);
    }
    status::tell(&mut round);
    round.plan
}

pub(super) fn hash_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(REVISION_LABEL).map(String::as_str)
}

impl Round<'_> {
    pub fn is_current(&self, pod: &Pod) -> bool {
        hash_of(pod) == Some(&self.hash)
    }

    pub fn create_on(&mut self, node: &str) {
        let mut pod = pod_for(self.set, &self.set.spec.template);
        placement::pin(&mut pod, node);
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(REVISION_LABEL.to_owned(), self.hash.clone());
        self.plan.act(Action::create(&pod).telling(creation_events(self.set)));
    }

    pub fn delete(&mut self, pod: &Pod) {
        self.plan.act(Action::delete(pod).telling(deletion_events(self.set)));
    }
}

/// Every node, and every place that still has a pod though its node is gone.
fn places(seen: &Observed, mine: &[Arc<Pod>]) -> Vec<Place> {
    let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in mine {
        let node = placement::target_node(pod).unwrap_or("").to_owned();
        by_node.entry(node).or_default().push(pod.clone());
    }
    let mut places = Vec::new();
    for node in &seen.nodes {
        let name = key_of(&**node).name;
        let (should_run, may_stay) = placement::should_run(&seen.set, node);
        let pods = by_node.remove(&name).unwrap_or_default();
        places.push(Place { node: name, should_run, may_stay, pods });
    }
    // Pods of nodes that do not exist go; their node cannot say so any more.
    let lost =
        by_node.into_iter().map(|(node, pods)| Place { node, should_run: false, may_stay: false, pods });
    places.extend(lost);
    places
}

fn manage(round: &mut Round<'_>) {
    let surge = update::max_surge(round.set, &round.places);
    let places = std::mem::take(&mut round.places);
    for place in &places {
        let (failed, others): (Vec<_>, Vec<_>) =
            place.pods.iter().cloned().partition(|pod| pods::is_finished(pod) && !pods::is_terminating(pod));
        let mut active: Vec<Arc<Pod>> = others.into_iter().filter(|pod| pods::is_active(pod)).collect();
        active.sort_by_key(|pod| pods::created(pod));
        if !place.may_stay {
            active.iter().chain(&failed).for_each(|pod| round.delete(pod));
            continue;
        }
        replace_failed(round, place, &failed);
        let waits = place.pods.iter().any(|pod| pods::is_terminating(pod)) || !failed.is_empty();
        if active.is_empty() && place.should_run && !waits {
            round.create_on(&place.node);
        }
        // The oldest of each version stays: with surge both versions may, otherwise one pod.
        let (new, old): (Vec<_>, Vec<_>) = active.iter().partition(|pod| round.is_current(pod));
        let spare: Vec<&Arc<Pod>> = match surge {
            0 => active.iter().skip(1).collect(),
            _ => new.into_iter().skip(1).chain(old.into_iter().skip(1)).collect(),
        };
        spare.into_iter().for_each(|pod| round.delete(pod));
    }
    round.places = places;
}

fn replace_failed(round: &mut Round<'_>, place: &Place, failed: &[Arc<Pod>]) {
    for pod in failed {
        let due = pods::created(pod).map_or(round.now, |made| made + FAILED_PAUSE);
        if due > round.now {
            round.plan.again_at(due, round.now);
            continue;
        }
        let message =
            format!("Found failed daemon pod {} on node {}, will try to kill it", key_of(&**pod), place.node);
        round.plan.event(EventRecord::warning(round.set, "FailedDaemonPod", message));
        round.delete(pod);
    }
}
