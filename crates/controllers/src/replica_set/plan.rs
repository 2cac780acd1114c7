//! The plan: create what is missing, delete what is too much, tell how it stands.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_meta::Backoff;
use minik8s_runtime::{Action, Plan};

use super::{Observed, Replicated, ReplicatedStatus};
use crate::claim::claim;
use crate::pods;
use crate::template::{creation_events, deletion_events, pod_for};

/// No more than this many pods are created or deleted at once; the rest follows in the next round.
const BURST: usize = 500;
/// Failures count for this long.
const FAILURE_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// Between rounds of failures.
const BACKOFF: Backoff = Backoff::millis(10_000, 300_000);
/// So few failures never slow down anything.
const FREE_FAILURES: usize = 3;

pub(super) fn plan<O: Replicated>(seen: &Observed<O>, now: Timestamp) -> Plan {
    let owner = &*seen.owner;
    let mut plan = Plan::default();
    let claimed = claim(owner, &owner.selector(), &seen.pods);
    plan.actions = claimed.actions;
    let active: Vec<Arc<Pod>> = claimed.mine.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
    if owner.meta().deletion_timestamp.is_none() {
        manage(owner, &claimed.mine, active.clone(), now, &mut plan);
    }
    let wanted = usize::try_from(owner.replicas()).unwrap_or(0);
    let mut status = status(owner, &claimed.mine, &active, now);
    if active.len() == wanted {
        status.failure = None;
    }
    let mut updated = owner.clone();
    if status != owner.status() {
        updated.set_status(status);
    }
    plan.status(owner, updated);
    if let Some(at) = pods::next_available(&active, owner.min_ready_seconds(), now) {
        plan.again_at(at, now);
    }
    plan
}

/// What could not be done stands in the status.
pub(super) fn plan_failure<O: Replicated>(seen: &Observed<O>, error: &str, now: Timestamp) -> Plan {
    let owner = &*seen.owner;
    let claimed = claim(owner, &owner.selector(), &seen.pods);
    let active: Vec<Arc<Pod>> = claimed.mine.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
    let mut status = status(owner, &claimed.mine, &active, now);
    let wanted = usize::try_from(owner.replicas()).unwrap_or(0);
    let reason = if active.len() < wanted { "FailedCreate" } else { "FailedDelete" };
    // Each try names another pod: to write that down every time would be a change that leads to the next try.
    if status.failure.as_ref().is_none_or(|(known, ..)| known != reason) {
        status.failure = Some((reason.to_owned(), error.to_owned(), Some(Time(now))));
    }
    let mut updated = owner.clone();
    if status != owner.status() {
        updated.set_status(status);
    }
    let mut plan = Plan::default();
    plan.status(owner, updated);
    plan
}

fn manage<O: Replicated>(
    owner: &O,
    mine: &[Arc<Pod>],
    mut active: Vec<Arc<Pod>>,
    now: Timestamp,
    plan: &mut Plan,
) {
    let wanted = usize::try_from(owner.replicas()).unwrap_or(0);
    if active.len() > wanted {
        let surplus = (active.len() - wanted).min(BURST);
        pods::sort_for_deletion(&mut active);
        let victims = active.iter().take(surplus);
        plan.actions.extend(victims.map(|pod| Action::delete(&**pod).telling(deletion_events(owner))));
        return;
    }
    let missing = (wanted - active.len()).min(BURST);
    let Some(template) = owner.template().filter(|_| missing > 0) else { return };
    if let Some(at) = paused_until(mine, wanted, now) {
        plan.again_at(at, now);
        return;
    }
    let create = Action::create(&pod_for(owner, template)).telling(creation_events(owner));
    plan.actions.extend(std::iter::repeat_n(create, missing));
}

/// Pods that keep failing are replaced more and more slowly: as soon as more have failed than there
/// should be, the pause since the last failure doubles with each such round.
fn paused_until(mine: &[Arc<Pod>], wanted: usize, now: Timestamp) -> Option<Timestamp> {
    let failures: Vec<Timestamp> = mine
        .iter()
        .filter(|pod| pods::phase(pod) == "Failed" && !pods::is_terminating(pod))
        .filter_map(|pod| failed_at(pod))
        .filter(|at| now.duration_since(*at) < FAILURE_WINDOW)
        .collect();
    let rounds = failures.len() / wanted.max(FREE_FAILURES);
    let last = failures.iter().max().filter(|_| rounds > 0)?;
    let until = last.checked_add(BACKOFF.after(u32::try_from(rounds).unwrap_or(u32::MAX))).ok()?;
    (until > now).then_some(until)
}

fn failed_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let ends =
        status.container_statuses.iter().flatten().filter_map(|container| {
            Some(container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)
        });
    let unready = || pods::condition(pod, "Ready")?.last_transition_time.as_ref().map(|time| time.0);
    ends.max().or_else(unready).or_else(|| pods::created(pod))
}

fn status<O: Replicated>(
    owner: &O,
    mine: &[Arc<Pod>],
    active: &[Arc<Pod>],
    now: Timestamp,
) -> ReplicatedStatus {
    let count = |is: &dyn Fn(&Pod) -> bool| {
        i32::try_from(active.iter().filter(|pod| is(pod)).count()).unwrap_or(i32::MAX)
    };
    let wanted_labels =
        owner.template().and_then(|t| t.metadata.as_ref()?.labels.clone()).unwrap_or_default();
    let has_all_labels = |pod: &Pod| {
        let labels = pod.metadata.labels.as_ref();
        wanted_labels.iter().all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value))
    };
    let terminating = mine.iter().filter(|pod| pods::is_terminating(pod) && !pods::is_finished(pod)).count();
    let seconds = owner.min_ready_seconds();
    let old = owner.status();
    ReplicatedStatus {
        replicas: count(&|_| true),
        fully_labeled: count(&has_all_labels),
        ready: count(&pods::is_ready),
        available: count(&|pod| pods::is_available(pod, seconds, now)),
        terminating: i32::try_from(terminating).unwrap_or(i32::MAX),
        observed_generation: owner.meta().generation,
        failure: old.failure,
    }
}
