//! How many finished runs are kept.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use minik8s_runtime::{Action, OutcomeEvents, Plan, Propagation, Regarding};

use super::{Observed, runs};
use crate::job::finished;

/// Deletes the oldest finished runs beyond the limits.
pub(super) fn trim(seen: &Observed, plan: &mut Plan) {
    let spec = &seen.cron.spec;
    let limits = [(true, spec.successful_jobs_history_limit), (false, spec.failed_jobs_history_limit)];
    for (succeeded, limit) in limits {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let mut done: Vec<&Arc<Job>> = seen
            .jobs
            .iter()
            .filter(|job| finished(job).is_some() && job.metadata.deletion_timestamp.is_none())
            .filter(|job| runs::has_succeeded(job) == succeeded)
            .collect();
        done.sort_by_key(|job| {
            let started = job.status.as_ref().and_then(|s| s.start_time.as_ref()).map(|time| time.0);
            (started, job.metadata.name.clone())
        });
        let too_many = done.len().saturating_sub(limit);
        done.iter().take(too_many).for_each(|job| plan.act(delete(seen, job)));
    }
}

/// A run with its pods.
pub(super) fn delete(seen: &Observed, job: &Job) -> Action {
    let told = OutcomeEvents {
        regarding: Regarding::of(&*seen.cron),
        done: ("SuccessfulDelete", "Deleted job "),
        failed: ("FailedDelete", "Error deleting job: "),
    };
    Action::delete(job).with_propagation(Propagation::Background).telling(told)
}
