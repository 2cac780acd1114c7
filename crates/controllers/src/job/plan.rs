//! The order of decisions.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{Action, Notice, Plan, Propagation};

use super::account::{Account, is_indexed};
use super::ending::{deadline, ending};
use super::{Observed, finished, pod, selector, status};
use crate::claim::claim;
use crate::pods;
use crate::template::{creation_told, deletion_told};

const BURST: i32 = 500;
const FIRST_PAUSE: i64 = 10;
const LONGEST_PAUSE: i64 = 600;

pub(super) fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let job = &*seen.job;
    let mut plan = Plan::default();
    let Some(spec) = &job.spec else { return plan };
    let claimed = claim(job, &selector(job), &seen.pods);
    plan.actions = claimed.actions;
    let mine = claimed.mine;
    let is_over = finished(job).is_some();
    let account = Account::close(job, &mine, is_over || is_going(job), &mut plan);
    if is_over {
        expire(job, now, &mut plan);
        return plan;
    }
    let active: Vec<Arc<Pod>> = mine.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
    let mut status = status::open(job, &mine, &active, &account);
    let ending = ending(job, &mine, &account, now);
    if is_going(job) {
        // Its pods go with it.
    } else if let Some(ending) = &ending {
        active.iter().for_each(|pod| delete(job, pod, &mut plan));
        let rest = mine.iter().any(|pod| !pods::is_finished(pod)) || !account.is_settled();
        status::end(job, &mut status, ending, !rest, now, &mut plan);
    } else if spec.suspend == Some(true) {
        active.iter().for_each(|pod| delete(job, pod, &mut plan));
        status.start_time = None;
        if status::suspend(&mut status, true, now) {
            plan.notice(Notice::normal(job, "Suspended", "Job suspended"));
        }
    } else {
        if status::suspend(&mut status, false, now) {
            plan.notice(Notice::normal(job, "Resumed", "Job resumed"));
        }
        status.start_time.get_or_insert(Time(now));
        manage(job, &mine, active, &account, now, &mut plan);
    }
    let updated = Job { status: Some(status), ..job.clone() };
    if let Some(at) = deadline(&updated).filter(|at| *at > now && ending.is_none()) {
        plan.again_at(at, now);
    }
    plan.status(job, updated);
    plan
}

fn is_going(job: &Job) -> bool {
    job.metadata.deletion_timestamp.is_some()
}

fn delete(job: &Job, pod: &Pod, plan: &mut Plan) {
    plan.act(Action::delete(pod).telling(deletion_told(job)));
}

/// A Job that is over may ask to be removed after a while.
fn expire(job: &Job, now: Timestamp, plan: &mut Plan) {
    let ttl = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
    let ended = finished(job).and_then(|c| c.last_transition_time.as_ref());
    let Some((ttl, ended)) = ttl.zip(ended).filter(|_| !is_going(job)) else { return };
    let due = ended.0 + SignedDuration::from_secs(i64::from(ttl.max(0)));
    if due > now {
        plan.again_at(due, now);
    } else {
        plan.act(Action::delete(job).with_propagation(Propagation::Foreground));
    }
}

/// Keeps as many pods running as the Job wants at once.
fn manage(
    job: &Job,
    mine: &[Arc<Pod>],
    mut active: Vec<Arc<Pod>>,
    account: &Account,
    now: Timestamp,
    plan: &mut Plan,
) {
    let Some(spec) = &job.spec else { return };
    let running = i32::try_from(active.len()).unwrap_or(i32::MAX);
    let parallelism = spec.parallelism.unwrap_or(1).max(0);
    let wanted = match spec.completions {
        Some(all) => (all - account.total_succeeded() - account.failed_indexes.len()).clamp(0, parallelism),
        None if account.total_succeeded() > 0 => running.min(parallelism),
        None => parallelism,
    };
    if is_indexed(job) {
        drop_useless(job, &mut active, account, plan);
    }
    let running = i32::try_from(active.len()).unwrap_or(i32::MAX);
    if running > wanted {
        pods::sort_for_deletion(&mut active);
        let surplus = usize::try_from(running - wanted).unwrap_or(0);
        active.iter().take(surplus).for_each(|pod| delete(job, pod, plan));
        return;
    }
    let mut missing = (wanted - running).min(BURST);
    if spec.pod_replacement_policy.as_deref() == Some("Failed") {
        let leaving = mine.iter().filter(|pod| pods::is_terminating(pod) && !pods::is_finished(pod)).count();
        missing -= i32::try_from(leaving).unwrap_or(i32::MAX);
    }
    if missing <= 0 {
        return;
    }
    if let Some(at) = paused_until(mine).filter(|at| *at > now) {
        plan.again_at(at, now);
        return;
    }
    create(job, mine, &active, account, usize::try_from(missing).unwrap_or(0), plan);
}

/// Pods of indexes that are done, and second pods of one index.
fn drop_useless(job: &Job, active: &mut Vec<Arc<Pod>>, account: &Account, plan: &mut Plan) {
    let mut taken = super::indexes::Indexes::default();
    active.sort_by_key(|pod| pods::created(pod));
    active.retain(|pod| {
        let useful = pod::index(pod).is_some_and(|index| {
            !account.completed.contains(index) && !account.failed_indexes.contains(index) && taken.insert(index)
        });
        if !useful {
            delete(job, pod, plan);
        }
        useful
    });
}

fn create(
    job: &Job,
    mine: &[Arc<Pod>],
    active: &[Arc<Pod>],
    account: &Account,
    missing: usize,
    plan: &mut Plan,
) {
    let act = |pod: Option<Pod>, plan: &mut Plan| {
        if let Some(pod) = pod {
            plan.act(Action::create(&pod).telling(creation_told(job)));
        }
    };
    if !is_indexed(job) {
        let pod = pod::new(job, None);
        (0..missing).for_each(|_| act(pod.clone(), plan));
        return;
    }
    let spec = job.spec.as_ref();
    let all = spec.and_then(|s| s.completions).unwrap_or(0);
    let per_index = spec.and_then(|s| s.backoff_limit_per_index).is_some();
    let mut taken = super::indexes::Indexes::default();
    active.iter().filter_map(|pod| pod::index(pod)).for_each(|index| drop(taken.insert(index)));
    let free = (0..all).filter(|index| {
        !account.completed.contains(*index) && !account.failed_indexes.contains(*index) && !taken.contains(*index)
    });
    for index in free.take(missing) {
        let failures = per_index.then(|| next_failures(mine, index));
        act(pod::new(job, Some((index, failures))), plan);
    }
}

/// How often an index has failed so far.
fn next_failures(mine: &[Arc<Pod>], index: i32) -> i32 {
    let of_index = mine.iter().filter(|p| pod::index(p) == Some(index) && pods::phase(p) == "Failed");
    of_index.map(|p| pod::earlier_failures(p) + 1).max().unwrap_or(0)
}

/// Each failure since the last success doubles the pause before the next pod.
fn paused_until(mine: &[Arc<Pod>]) -> Option<Timestamp> {
    let ends = |phase: &'static str| {
        mine.iter().filter(move |p| pods::phase(p) == phase).filter_map(|p| pod::ended_at(p))
    };
    let last_success = ends("Succeeded").max();
    let failures: Vec<Timestamp> =
        ends("Failed").filter(|at| last_success.is_none_or(|success| *at > success)).collect();
    let last = failures.iter().max()?;
    let doublings = u32::try_from(failures.len() - 1).unwrap_or(u32::MAX).min(10);
    let seconds = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    last.checked_add(SignedDuration::from_secs(seconds)).ok()
}
