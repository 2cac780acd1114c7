//! How a Job stands.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{EventRecord, Plan};

use super::account::{Account, is_indexed};
use super::ending::Ending;
use crate::pods;

/// The numbers; conditions and times as they were.
pub(super) fn open(job: &Job, mine: &[Arc<Pod>], active: &[Arc<Pod>], account: &Account) -> JobStatus {
    let old = job.status.clone().unwrap_or_default();
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let some = |n: i32| (n != 0).then_some(n);
    let (succeeded, failed) = account.counted();
    let terminating = mine.iter().filter(|pod| pods::is_terminating(pod) && !pods::is_finished(pod)).count();
    let has_limit = job.spec.as_ref().is_some_and(|s| s.backoff_limit_per_index.is_some());
    JobStatus {
        active: some(count(active.len())),
        ready: Some(count(active.iter().filter(|pod| pods::is_ready(pod)).count())),
        terminating: Some(count(terminating)),
        succeeded: some(succeeded),
        failed: some(failed),
        uncounted_terminated_pods: Some(account.uncounted()),
        completed_indexes: is_indexed(job)
            .then(|| account.completed.format())
            .filter(|text| !text.is_empty()),
        failed_indexes: has_limit.then(|| account.failed_indexes.format()),
        ..old
    }
}

/// Announces an ending, and seals it when nothing is left to wait for.
pub(super) fn end(
    job: &Job,
    status: &mut JobStatus,
    ending: &Ending,
    is_last: bool,
    now: Timestamp,
    plan: &mut Plan,
) {
    let (announced, sealed) = ending.conditions();
    set(status, announced, "True", &ending.reason, &ending.message, now);
    if !is_last {
        return;
    }
    set(status, sealed, "True", &ending.reason, &ending.message, now);
    if ending.succeeded {
        status.completion_time = Some(Time(now));
        plan.event(EventRecord::normal(job, "Completed", "Job completed"));
    } else {
        let event = EventRecord::warning(job, reason_name(&ending.reason), &*ending.message);
        plan.event(event);
    }
}

/// Event reasons are fixed words.
fn reason_name(reason: &str) -> &'static str {
    const KNOWN: [&str; 5] = [
        "PodFailurePolicy",
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "MaxFailedIndexesExceeded",
        "FailedIndexes",
    ];
    KNOWN.into_iter().find(|known| *known == reason).unwrap_or("Failed")
}

/// Tells whether the Job is suspended; true if that is news. A Job that never was says nothing.
pub(super) fn suspend(status: &mut JobStatus, is_suspended: bool, now: Timestamp) -> bool {
    let known = status.conditions.iter().flatten().find(|c| c.type_ == "Suspended").map(|c| c.status.clone());
    match (known.as_deref(), is_suspended) {
        (Some("True"), true) | (Some("False") | None, false) => false,
        (_, true) => {
            set(status, "Suspended", "True", "JobSuspended", "Job suspended", now);
            true
        }
        (_, false) => {
            set(status, "Suspended", "False", "JobResumed", "Job resumed", now);
            status.start_time = Some(Time(now));
            true
        }
    }
}

fn set(status: &mut JobStatus, kind: &str, is: &str, reason: &str, message: &str, now: Timestamp) {
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|c| c.type_ == kind && c.status == is) {
        return;
    }
    let condition = JobCondition {
        type_: kind.to_owned(),
        status: is.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    match conditions.iter_mut().find(|c| c.type_ == kind) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}
