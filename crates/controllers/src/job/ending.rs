//! Whether a Job is at its end, and how.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::account::{Account, is_indexed};
use super::indexes::Indexes;
use super::pod;
use crate::pods;

/// How a Job ends, with reason and message as in its conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ending {
    pub succeeded: bool,
    pub reason: String,
    pub message: String,
}

impl Ending {
    fn failure(reason: &str, message: &str) -> Self {
        Ending { succeeded: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn success(reason: &str, message: String) -> Self {
        Ending { succeeded: true, reason: reason.to_owned(), message }
    }

    /// The condition that announces it, and the one that seals it.
    pub fn conditions(&self) -> (&'static str, &'static str) {
        if self.succeeded { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") }
    }
}

/// An ending that was announced before stands; otherwise the criteria are looked at.
pub(super) fn ending(job: &Job, mine: &[Arc<Pod>], account: &Account, now: Timestamp) -> Option<Ending> {
    announced(job).or_else(|| failure(job, mine, account, now)).or_else(|| success(job, mine, account))
}

fn announced(job: &Job) -> Option<Ending> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let found = conditions
        .iter()
        .find(|c| matches!(c.type_.as_str(), "FailureTarget" | "SuccessCriteriaMet") && c.status == "True")?;
    Some(Ending {
        succeeded: found.type_ == "SuccessCriteriaMet",
        reason: found.reason.clone().unwrap_or_default(),
        message: found.message.clone().unwrap_or_default(),
    })
}

fn failure(job: &Job, mine: &[Arc<Pod>], account: &Account, now: Timestamp) -> Option<Ending> {
    let spec = job.spec.as_ref()?;
    if let Some(why) = &account.fatal {
        return Some(Ending::failure("PodFailurePolicy", why));
    }
    let limit =
        spec.backoff_limit.unwrap_or(if spec.backoff_limit_per_index.is_some() { i32::MAX } else { 6 });
    if account.total_failed() > limit || restarts_exceed(job, mine, limit) {
        return Some(Ending::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    if deadline(job).is_some_and(|at| at <= now) {
        let message = "Job was active longer than specified deadline";
        return Some(Ending::failure("DeadlineExceeded", message));
    }
    let failed = account.failed_indexes.len();
    if spec.max_failed_indexes.is_some_and(|most| failed > most) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Ending::failure("MaxFailedIndexesExceeded", message));
    }
    let all = spec.completions.unwrap_or(i32::MAX);
    if failed > 0 && is_indexed(job) && failed + account.completed.len() >= all {
        return Some(Ending::failure("FailedIndexes", "Job has failed indexes"));
    }
    None
}

/// Where containers are restarted in place, the restarts are the failures.
fn restarts_exceed(job: &Job, mine: &[Arc<Pod>], limit: i32) -> bool {
    let template = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    if template.and_then(|t| t.restart_policy.as_deref()) != Some("OnFailure") {
        return false;
    }
    let active = mine.iter().filter(|pod| pods::is_active(pod));
    let restarts = active.map(|pod| pod::restarts(pod)).fold(0, i32::saturating_add);
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

/// When a Job that runs must be over.
pub(super) fn deadline(job: &Job) -> Option<Timestamp> {
    let spec = job.spec.as_ref()?;
    if spec.suspend == Some(true) {
        return None;
    }
    let started = job.status.as_ref()?.start_time.as_ref()?.0;
    started.checked_add(SignedDuration::from_secs(spec.active_deadline_seconds?)).ok()
}

fn success(job: &Job, mine: &[Arc<Pod>], account: &Account) -> Option<Ending> {
    let spec = job.spec.as_ref()?;
    let rules = spec.success_policy.iter().flat_map(|policy| &policy.rules);
    for (i, rule) in rules.enumerate() {
        let all = spec.completions.unwrap_or(0);
        let named = rule.succeeded_indexes.as_deref().map(|text| Indexes::parse(text, all));
        let met = match &named {
            Some(named) => account.completed.common(named),
            None => account.completed.len(),
        };
        let needed = rule.succeeded_count.unwrap_or_else(|| named.as_ref().map_or(i32::MAX, Indexes::len));
        if met >= needed {
            return Some(Ending::success("SuccessPolicy", format!("Matched rules at index {i}")));
        }
    }
    let done = match spec.completions {
        Some(completions) => account.total_succeeded() >= completions,
        // A work queue is empty when one worker says so and the others have gone home.
        None => account.total_succeeded() > 0 && !mine.iter().any(|pod| !pods::is_finished(pod)),
    };
    let message = "Reached expected number of succeeded pods".to_owned();
    done.then(|| Ending::success("CompletionsReached", message))
}
