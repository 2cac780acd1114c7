//! The order of decisions.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_meta::Backoff;
use minik8s_runtime::{Action, EventRecord, Plan, Propagation};

use super::account::{Account, is_indexed, release, replaces_only_failed};
use super::ending::{deadline, ending};
use super::indexes::Indexes;
use super::{Observed, finished, pod, selector, status};
use crate::claim::claim;
use crate::pods;
use crate::template::{creation_events, deletion_events};

const BURST: i32 = 500;
const BACKOFF: Backoff = Backoff::millis(10_000, 600_000);

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
        for pod in &active {
            // A failed Job takes its last pods for failures, a successful one does not need them.
            if ending.succeeded { drop_pod(job, pod, &mut plan) } else { delete(job, pod, &mut plan) }
        }
        let rest = mine.iter().any(|pod| !pods::is_finished(pod)) || !account.is_settled();
        status::end(job, &mut status, ending, !rest, now, &mut plan);
    } else if spec.suspend == Some(true) {
        active.iter().for_each(|pod| drop_pod(job, pod, &mut plan));
        status.start_time = None;
        if status::suspend(&mut status, true, now) {
            plan.event(EventRecord::normal(job, "Suspended", "Job suspended"));
        }
    } else {
        if status::suspend(&mut status, false, now) {
            plan.event(EventRecord::normal(job, "Resumed", "Job resumed"));
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
    plan.act(Action::delete(pod).telling(deletion_events(job)));
}

/// A pod that is not wanted any more goes uncounted.
fn drop_pod(job: &Job, pod: &Pod, plan: &mut Plan) {
    if pod::is_tracked(pod) {
        plan.act(release(pod));
    }
    delete(job, pod, plan);
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
    if is_indexed(job) {
        drop_useless(job, &mut active, account, plan);
    }
    let running = count(active.len());
    let parallelism = spec.parallelism.unwrap_or(1).max(0);
    let wanted = match spec.completions {
        Some(all) => (all - account.total_succeeded() - account.failed_indexes.len()).clamp(0, parallelism),
        None if account.total_succeeded() > 0 => running.min(parallelism),
        None => parallelism,
    };
    if running > wanted {
        pods::sort_for_deletion(&mut active);
        let surplus = usize::try_from(running - wanted).unwrap_or(0);
        active.iter().take(surplus).for_each(|pod| drop_pod(job, pod, plan));
        return;
    }
    let leaving: Vec<&Arc<Pod>> = match replaces_only_failed(job) {
        true => mine.iter().filter(|pod| pods::is_terminating(pod) && !pods::is_finished(pod)).collect(),
        false => Vec::new(),
    };
    let missing = (wanted - running - count(leaving.len())).clamp(0, BURST);
    let missing = usize::try_from(missing).unwrap_or(0);
    if is_indexed(job) {
        let held = active.iter().chain(leaving).filter_map(|pod| pod::index(pod)).collect();
        create_indexed(job, mine, &held, account, missing, now, plan);
    } else if missing > 0 && !must_wait(mine.iter(), now, plan) {
        let pod = pod::new(job, None);
        (0..missing).for_each(|_| create(job, pod.as_ref(), plan));
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn create(job: &Job, pod: Option<&Pod>, plan: &mut Plan) {
    plan.actions.extend(pod.map(|pod| Action::create(pod).telling(creation_events(job))));
}

/// Pods of indexes that are done or do not exist, and second pods of one index.
fn drop_useless(job: &Job, active: &mut Vec<Arc<Pod>>, account: &Account, plan: &mut Plan) {
    let all = job.spec.as_ref().and_then(|s| s.completions).unwrap_or(0);
    let mut taken = Indexes::default();
    active.sort_by_key(|pod| pods::created(pod));
    active.retain(|pod| {
        let useful = pod::index(pod)
            .is_some_and(|index| (0..all).contains(&index) && !account.is_done(index) && taken.insert(index));
        if !useful {
            drop_pod(job, pod, plan);
        }
        useful
    });
}

/// The lowest indexes that nobody works on.
fn create_indexed(
    job: &Job,
    mine: &[Arc<Pod>],
    held: &Indexes,
    account: &Account,
    mut missing: usize,
    now: Timestamp,
    plan: &mut Plan,
) {
    let spec = job.spec.as_ref();
    let all = spec.and_then(|s| s.completions).unwrap_or(0);
    let per_index = spec.and_then(|s| s.backoff_limit_per_index).is_some();
    if missing == 0 || (!per_index && must_wait(mine.iter(), now, plan)) {
        return;
    }
    for index in (0..all).filter(|index| !account.is_done(*index) && !held.contains(*index)) {
        if missing == 0 {
            return;
        }
        let of_index = || mine.iter().filter(|pod| pod::index(pod) == Some(index));
        if per_index && must_wait(of_index(), now, plan) {
            continue;
        }
        let failures = per_index.then(|| next_failures(of_index()));
        create(job, pod::new(job, Some((index, failures))).as_ref(), plan);
        missing -= 1;
    }
}

/// How often an index has failed so far.
fn next_failures<'a>(of_index: impl Iterator<Item = &'a Arc<Pod>>) -> i32 {
    let failed = of_index.filter(|pod| pods::phase(pod) == "Failed" || pods::is_terminating(pod));
    failed.map(|pod| pod::earlier_failures(pod) + 1).max().unwrap_or(0)
}

/// Each failure since the last success doubles the pause before the next pod.
fn must_wait<'a>(tries: impl Iterator<Item = &'a Arc<Pod>> + Clone, now: Timestamp, plan: &mut Plan) -> bool {
    let until = paused_until(tries).filter(|until| *until > now);
    if let Some(until) = until {
        plan.again_at(until, now);
    }
    until.is_some()
}

fn paused_until<'a>(tries: impl Iterator<Item = &'a Arc<Pod>> + Clone) -> Option<Timestamp> {
    let ends = |phase: &'static str| {
        tries.clone().filter(move |pod| pods::phase(pod) == phase).filter_map(|pod| pod::ended_at(pod))
    };
    let last_success = ends("Succeeded").max();
    let failures: Vec<Timestamp> =
        ends("Failed").filter(|at| last_success.is_none_or(|success| *at > success)).collect();
    let last = failures.iter().max()?;
    last.checked_add(BACKOFF.after(u32::try_from(failures.len()).unwrap_or(u32::MAX))).ok()
}
