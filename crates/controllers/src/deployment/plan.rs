//! The order of decisions.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, EventRecord, Plan};
use serde_json::json;

use super::limits::replicas;
use super::{Observed, recreate, revision, rolling, scale, selector, status};
use crate::claim::claim;

/// A Deployment with its ReplicaSets, and the plan that is being made for it.
pub(super) struct Rollout<'a> {
    pub deployment: &'a Deployment,
    pub current: Option<Arc<ReplicaSet>>,
    /// Oldest first.
    pub old: Vec<Arc<ReplicaSet>>,
    pub now: Timestamp,
    pub plan: Plan,
    /// What this round did about the current set, for the progress condition.
    pub step: Option<status::Step>,
}

pub(super) fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let deployment = &*seen.deployment;
    let claimed = claim(deployment, &selector(deployment), &seen.sets);
    let (current, old) = revision::split(deployment, claimed.mine);
    let mut rollout = Rollout { deployment, current, old, now, plan: Plan::default(), step: None };
    rollout.plan.actions = claimed.actions;
    let spec = &deployment.spec;
    if deployment.metadata.deletion_timestamp.is_some() || matches_everything(deployment) {
        if deployment.metadata.deletion_timestamp.is_none() {
            let message = "This deployment is selecting all pods. A non-empty selector is required.";
            rollout.plan.event(EventRecord::warning(deployment, "SelectingAll", message));
        }
        status::tell(&mut rollout);
        return rollout.plan;
    }
    if spec.paused == Some(true) {
        scale::scale(&mut rollout);
        cleanup(&mut rollout);
    } else if scale::is_scaling(&rollout) {
        scale::scale(&mut rollout);
    } else if super::is_recreate(deployment) {
        recreate::roll(&mut rollout, seen);
    } else {
        rolling::roll(&mut rollout, seen);
    }
    if !rollout.plan.actions.is_empty() {
        // What was just decided shows in the sets first; the status follows in the next round. Only what
        // this round knows and the next cannot see is told now.
        if rollout.step.is_none() {
            return rollout.plan;
        }
    }
    status::tell(&mut rollout);
    rollout.plan
}

fn matches_everything(deployment: &Deployment) -> bool {
    selector(deployment).is_everything()
}

impl Rollout<'_> {
    pub fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.current)
    }

    /// Pods that all sets are meant to have together.
    pub fn total(&self) -> i32 {
        self.all().map(|set| size(set)).sum()
    }

    /// Gives a set another size (with an event), or only the annotations that go with it.
    pub fn resize(&mut self, set: &ReplicaSet, to: i32) {
        let from = size(set);
        let mut patch = json!({});
        if from != to {
            patch["spec"] = json!({"replicas": to});
            let name = set.metadata.name.as_deref().unwrap_or("");
            let way = if to > from { "up" } else { "down" };
            let message = format!("Scaled {way} replica set {name} from {from} to {to}");
            self.plan.event(EventRecord::normal(self.deployment, "ScalingReplicaSet", message));
        }
        let have = set.metadata.annotations.clone().unwrap_or_default();
        let wanted = revision::size_annotations(self.deployment);
        let annotations: serde_json::Map<_, _> = wanted
            .into_iter()
            .filter(|(key, value)| have.get(key) != Some(value))
            .map(|(key, value)| (key, json!(value)))
            .collect();
        if !annotations.is_empty() {
            patch["metadata"] = json!({ "annotations": annotations });
        }
        if patch != json!({}) {
            self.plan.act(Action::patch(set, patch));
        }
    }

    /// Brings the current set's and the Deployment's own annotations up to date, or makes the set.
    /// True if there is a set to work with in this round.
    pub fn ensure_current(&mut self, seen: &Observed, new_size: impl FnOnce(&Self) -> i32) -> bool {
        let next = revision::next_revision(&self.old);
        let deployment = self.deployment;
        let Some(current) = self.current.clone() else {
            self.create_current(seen, next, new_size);
            return false;
        };
        let have = current.metadata.annotations.as_ref();
        let wanted = revision::set_annotations(deployment, have, next);
        let min_ready = deployment.spec.min_ready_seconds.unwrap_or(0);
        let has_min_ready = current.spec.min_ready_seconds.unwrap_or(0);
        let mut patch = json!({});
        if have != Some(&wanted) {
            patch["metadata"] = json!({ "annotations": wanted });
        }
        if min_ready != has_min_ready {
            patch["spec"] = json!({ "minReadySeconds": min_ready });
        }
        if patch != json!({}) {
            self.plan.act(Action::patch(&*current, patch));
            return false;
        }
        let shown = revision::revision(deployment.metadata.annotations.as_ref());
        let is = revision::revision(have);
        if shown != is {
            let annotation = json!({ revision::REVISION: is.to_string() });
            let patch = json!({"metadata": {"annotations": annotation}});
            self.plan.act(Action::patch(deployment, patch));
            return false;
        }
        self.step = self.step.take().or(Some(status::Step::Found(name(&current))));
        true
    }

    fn create_current(&mut self, seen: &Observed, next: i64, new_size: impl FnOnce(&Self) -> i32) {
        if let Some(holder) = &seen.name_holder {
            // Either the hash collides, or ours is on its way out with the old name.
            let is_ours = revision::is_current(self.deployment, holder)
                && minik8s_runtime::is_controlled_by(&holder.metadata, uid(self.deployment));
            if !is_ours {
                self.step = Some(status::Step::Collided);
            }
            return;
        }
        let size = new_size(self);
        let set = revision::new_set(self.deployment, size, next);
        let name = name(&set);
        if size > 0 {
            let message = format!("Scaled up replica set {name} from 0 to {size}");
            self.plan.event(EventRecord::normal(self.deployment, "ScalingReplicaSet", message));
        }
        self.plan.act(Action::create(&set));
        self.step = Some(status::Step::Created(name));
    }
}

pub(super) fn size(set: &ReplicaSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

pub(super) fn name(set: &ReplicaSet) -> String {
    set.metadata.name.clone().unwrap_or_default()
}

fn uid(deployment: &Deployment) -> &str {
    deployment.metadata.uid.as_deref().unwrap_or("")
}

/// Deletes the oldest empty sets beyond the history limit.
pub(super) fn cleanup(rollout: &mut Rollout<'_>) {
    let limit = rollout.deployment.spec.revision_history_limit.unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or(0);
    let mut done: Vec<Arc<ReplicaSet>> = rollout.old.iter().filter(|set| is_spent(set)).cloned().collect();
    done.sort_by_key(|set| revision::revision(set.metadata.annotations.as_ref()));
    let too_many = done.len().saturating_sub(limit);
    for set in done.iter().take(too_many) {
        rollout.plan.act(Action::delete(&**set));
    }
}

/// Scaled to nothing, has nothing, and knows it.
fn is_spent(set: &ReplicaSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    size(set) == 0
        && status.replicas == 0
        && set.metadata.deletion_timestamp.is_none()
        && status.observed_generation >= set.metadata.generation
}

/// Everything wanted is there, new and available.
pub(super) fn is_complete(rollout: &Rollout<'_>) -> bool {
    let wanted = replicas(rollout.deployment);
    let available = rollout.current.as_ref().map_or(0, |set| status::available(set));
    let have: i32 = rollout.all().map(|set| set.status.as_ref().map_or(0, |s| s.replicas)).sum();
    let new = rollout.current.as_ref().and_then(|set| set.status.as_ref()).map_or(0, |s| s.replicas);
    new == wanted && have == wanted && available == wanted
}
