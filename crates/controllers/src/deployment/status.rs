//! How it stands: numbers, and the conditions Available, Progressing and ReplicaFailure.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::limits::{max_unavailable, replicas};
use super::plan::{Rollout, size};

/// What a round did about the current ReplicaSet.
pub(super) enum Step {
    Created(String),
    Found(String),
    /// Its name is taken by something else.
    Collided,
}

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";
/// The deadline that means none.
const NO_DEADLINE: i32 = i32::MAX;

pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// Adds the status, if it changed, and when to look whether the deadline has passed.
pub(super) fn tell(rollout: &mut Rollout<'_>) {
    let deployment = rollout.deployment;
    let old = deployment.status.clone().unwrap_or_default();
    let mut status = numbers(rollout, &old);
    let mut conditions = old.conditions.clone().unwrap_or_default();
    set_available(&mut conditions, rollout, &status);
    set_failure(&mut conditions, rollout);
    let spec = &deployment.spec;
    let deadline = spec.progress_deadline_seconds.unwrap_or(600);
    let is_paused = spec.paused == Some(true);
    if deadline != NO_DEADLINE && deployment.metadata.deletion_timestamp.is_none() {
        if is_paused || was_paused(&conditions) {
            tell_pause(&mut conditions, is_paused, rollout.now);
        } else {
            tell_progress(&mut conditions, rollout, &old, &status, deadline);
        }
    }
    if matches!(rollout.step, Some(Step::Collided)) {
        status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
    }
    // The order in which they first appeared stays.
    status.conditions = Some(conditions).filter(|c| !c.is_empty());
    let updated = Deployment { status: Some(status), ..deployment.clone() };
    if let Some(at) = deadline_at(&updated, deadline).filter(|_| !is_paused) {
        rollout.plan.again_at(at, rollout.now);
    }
    rollout.plan.status(deployment, updated);
}

fn numbers(rollout: &Rollout<'_>, old: &DeploymentStatus) -> DeploymentStatus {
    let sum = |count: &dyn Fn(&ReplicaSet) -> i32| rollout.all().map(|set| count(set)).sum::<i32>();
    let of = |set: &ReplicaSet, pick: fn(&k8s_openapi::api::apps::v1::ReplicaSetStatus) -> Option<i32>| {
        set.status.as_ref().and_then(pick).unwrap_or(0)
    };
    let some = |count: i32| (count != 0).then_some(count);
    let total_available = sum(&|set| of(set, |s| s.available_replicas));
    let unavailable = (sum(&size) - total_available).max(0);
    let new = rollout.current.as_ref().map_or(0, |set| of(set, |s| Some(s.replicas)));
    DeploymentStatus {
        observed_generation: rollout.deployment.metadata.generation,
        replicas: some(sum(&|set| of(set, |s| Some(s.replicas)))),
        updated_replicas: some(new),
        ready_replicas: some(sum(&|set| of(set, |s| s.ready_replicas))),
        available_replicas: some(total_available),
        unavailable_replicas: some(unavailable),
        terminating_replicas: Some(sum(&|set| of(set, |s| s.terminating_replicas))),
        collision_count: old.collision_count,
        conditions: None,
    }
}

fn set_available(
    conditions: &mut Vec<DeploymentCondition>,
    rollout: &Rollout<'_>,
    status: &DeploymentStatus,
) {
    let needed = replicas(rollout.deployment) - max_unavailable(rollout.deployment);
    let enough = status.available_replicas.unwrap_or(0) >= needed;
    let (is, reason, message) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(conditions, AVAILABLE, is, reason, message.to_owned(), rollout.now);
}

/// Taken over from whichever set has it.
fn set_failure(conditions: &mut Vec<DeploymentCondition>, rollout: &Rollout<'_>) {
    let sets = rollout.current.iter().chain(&rollout.old);
    let failures = sets.flat_map(|set| set.status.iter().flat_map(|s| s.conditions.iter().flatten()));
    match failures
        .clone()
        .find(|c| c.type_.as_deref() == Some(FAILURE) && c.status.as_deref() == Some("True"))
    {
        Some(failure) => set(
            conditions,
            FAILURE,
            "True",
            failure.reason.as_deref().unwrap_or(""),
            failure.message.clone().unwrap_or_default(),
            rollout.now,
        ),
        None => conditions.retain(|c| c.type_.as_deref() != Some(FAILURE)),
    }
}

fn was_paused(conditions: &[DeploymentCondition]) -> bool {
    progressing(conditions).is_some_and(|c| c.reason.as_deref() == Some("DeploymentPaused"))
}

fn tell_pause(conditions: &mut Vec<DeploymentCondition>, is_paused: bool, now: Timestamp) {
    let known = progressing(conditions).and_then(|c| c.reason.clone()).unwrap_or_default();
    // A roll that is done, or has failed, stays so.
    if is_paused && known == "ProgressDeadlineExceeded" {
        return;
    }
    let (reason, message) = if is_paused {
        ("DeploymentPaused", "Deployment is paused")
    } else {
        ("DeploymentResumed", "Deployment is resumed")
    };
    if known != reason {
        set(conditions, PROGRESSING, "Unknown", reason, message.to_owned(), now);
    }
}

fn tell_progress(
    conditions: &mut Vec<DeploymentCondition>,
    rollout: &Rollout<'_>,
    old: &DeploymentStatus,
    status: &DeploymentStatus,
    deadline: i32,
) {
    let now = rollout.now;
    match &rollout.step {
        Some(Step::Created(name)) => {
            let message = format!("Created new replica set \"{name}\"");
            set(conditions, PROGRESSING, "True", "NewReplicaSetCreated", message, now);
            return;
        }
        Some(Step::Found(name)) if progressing(conditions).is_none() => {
            let message = format!("Found new replica set \"{name}\"");
            set(conditions, PROGRESSING, "True", "FoundNewReplicaSet", message, now);
        }
        _ => {}
    }
    let reason = progressing(conditions).and_then(|c| c.reason.clone()).unwrap_or_default();
    let same_template = status.replicas == status.updated_replicas;
    if same_template && reason == "NewReplicaSetAvailable" {
        return;
    }
    let who = match &rollout.current {
        Some(set) => format!("ReplicaSet \"{}\"", set.metadata.name.as_deref().unwrap_or("")),
        None => format!("Deployment \"{}\"", rollout.deployment.metadata.name.as_deref().unwrap_or("")),
    };
    if is_complete(rollout.deployment, status) {
        let message = format!("{who} has successfully progressed.");
        set(conditions, PROGRESSING, "True", "NewReplicaSetAvailable", message, now);
    } else if has_progressed(old, status) {
        let message = format!("{who} is progressing.");
        set(conditions, PROGRESSING, "True", "ReplicaSetUpdated", message, now);
        // Each step of progress starts the deadline anew.
        if let Some(condition) = conditions.iter_mut().find(|c| c.type_.as_deref() == Some(PROGRESSING)) {
            condition.last_update_time = Some(Time(now));
        }
    } else if has_timed_out(conditions, deadline, now) {
        let message = format!("{who} has timed out progressing.");
        set(conditions, PROGRESSING, "False", "ProgressDeadlineExceeded", message, now);
    }
}

fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = replicas(deployment);
    let is = |count: Option<i32>| count.unwrap_or(0) == wanted;
    is(status.updated_replicas) && is(status.replicas) && is(status.available_replicas)
}

fn has_progressed(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let n = |count: Option<i32>| count.unwrap_or(0);
    let outdated = |status: &DeploymentStatus| n(status.replicas) - n(status.updated_replicas);
    n(new.updated_replicas) > n(old.updated_replicas)
        || outdated(new) < outdated(old)
        || n(new.ready_replicas) > n(old.ready_replicas)
        || n(new.available_replicas) > n(old.available_replicas)
}

fn has_timed_out(conditions: &[DeploymentCondition], deadline: i32, now: Timestamp) -> bool {
    let Some(condition) = progressing(conditions) else { return false };
    match condition.reason.as_deref() {
        Some("NewReplicaSetAvailable") => false,
        Some("ProgressDeadlineExceeded") => true,
        _ => expiry(condition, deadline).is_some_and(|at| at <= now),
    }
}

/// When the progress condition would turn, if nothing happens.
fn deadline_at(deployment: &Deployment, deadline: i32) -> Option<Timestamp> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    let condition = progressing(conditions)?;
    let waits = !matches!(
        condition.reason.as_deref(),
        Some("NewReplicaSetAvailable" | "ProgressDeadlineExceeded" | "DeploymentPaused")
    );
    if waits && deadline != NO_DEADLINE { expiry(condition, deadline) } else { None }
}

fn expiry(condition: &DeploymentCondition, deadline: i32) -> Option<Timestamp> {
    let since = condition.last_update_time.as_ref().or(condition.last_transition_time.as_ref())?;
    since.0.checked_add(SignedDuration::from_secs(i64::from(deadline))).ok()
}

fn progressing(conditions: &[DeploymentCondition]) -> Option<&DeploymentCondition> {
    conditions.iter().find(|c| c.type_.as_deref() == Some(PROGRESSING))
}

/// Sets a condition; saying the same again changes nothing but the words.
fn set(
    conditions: &mut Vec<DeploymentCondition>,
    kind: &str,
    is: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let known = conditions.iter_mut().find(|c| c.type_.as_deref() == Some(kind));
    let Some(known) = known else {
        conditions.push(DeploymentCondition {
            type_: Some(kind.to_owned()),
            status: Some(is.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_update_time: Some(Time(now)),
            last_transition_time: Some(Time(now)),
        });
        return;
    };
    if known.status.as_deref() == Some(is) && known.reason.as_deref() == Some(reason) {
        known.message = Some(message);
        return;
    }
    if known.status.as_deref() != Some(is) {
        known.last_transition_time = Some(Time(now));
    }
    known.status = Some(is.to_owned());
    known.reason = Some(reason.to_owned());
    known.message = Some(message);
    known.last_update_time = Some(Time(now));
}
