//! Whether a run is due, and what stands in its way.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{Action, EventRecord, OutcomeEvents, Plan, Regarding};

use super::schedule::{Clock, MANY};
use super::{Observed, history, runs};
use crate::job::finished;

pub(super) fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let cron = &*seen.cron;
    let mut plan = Plan::default();
    let mut status = cron.status.clone().unwrap_or_default();
    look_at_runs(seen, &mut status, &mut plan);
    let is_going = cron.metadata.deletion_timestamp.is_some();
    if !is_going {
        history::trim(seen, &mut plan);
        let suspended = cron.spec.suspend == Some(true);
        match Clock::of(cron) {
            Ok(_) if suspended => {}
            Ok(clock) => start_if_due(seen, &clock, &mut status, now, &mut plan),
            Err((reason, message)) => plan.event(EventRecord::warning(cron, reason, message)),
        }
    }
    let is_new = cron.status.is_none() && status == CronJobStatus::default();
    if !is_new {
        plan.status(cron, CronJob { status: Some(status), ..cron.clone() });
    }
    plan
}

/// Which runs go on, and when one last went well.
fn look_at_runs(seen: &Observed, status: &mut CronJobStatus, plan: &mut Plan) {
    let was_active = |job: &Job| {
        let mut known = status.active.iter().flatten();
        known.any(|reference| reference.uid == job.metadata.uid)
    };
    for job in seen.jobs.iter().filter(|job| was_active(job)) {
        if let Some(end) = finished(job) {
            let name = job.metadata.name.as_deref().unwrap_or("");
            let message = format!("Saw completed job: {name}, condition: {}", end.type_);
            plan.event(EventRecord::normal(&*seen.cron, "SawCompletedJob", message));
        }
    }
    let active: Vec<_> = seen.jobs.iter().filter(|job| runs::is_active(job)).collect();
    status.active =
        Some(active.iter().map(|job| runs::reference(job)).collect()).filter(|a: &Vec<_>| !a.is_empty());
    let successes = seen.jobs.iter().filter(|job| runs::has_succeeded(job));
    let ends = successes.filter_map(|job| job.status.as_ref()?.completion_time.clone());
    let last = ends.chain(status.last_successful_time.take()).max_by_key(|time| time.0);
    status.last_successful_time = last;
}

fn start_if_due(seen: &Observed, clock: &Clock, status: &mut CronJobStatus, now: Timestamp, plan: &mut Plan) {
    let cron = &*seen.cron;
    let spec = &cron.spec;
    if let Some(next) = clock.next_after(now) {
        plan.again_at(next, now);
    }
    let created = cron.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let since = status.last_schedule_time.as_ref().map_or(created, |time| time.0);
    let Some((due, missed)) = clock.latest(since, now) else { return };
    if missed > MANY {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.event(EventRecord::warning(cron, "TooManyMissedTimes", message));
    }
    let timeout = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    if timeout.is_some_and(|timeout| due.checked_add(timeout).is_ok_and(|latest| latest < now)) {
        let message = format!("Missed scheduled time to start a job: {due}");
        plan.event(EventRecord::warning(cron, "MissSchedule", message));
        return;
    }
    let name = runs::name(cron, due);
    let is_started = seen.jobs.iter().any(|job| job.metadata.name.as_deref() == Some(&name));
    if !is_started {
        let active: Vec<&Arc<Job>> = seen.jobs.iter().filter(|job| runs::is_active(job)).collect();
        match spec.concurrency_policy.as_deref() {
            Some("Forbid") if !active.is_empty() => {
                let message =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                plan.event(EventRecord::normal(cron, "JobAlreadyActive", message));
                return;
            }
            Some("Replace") => active.iter().for_each(|job| plan.act(history::delete(seen, job))),
            _ => {}
        }
        plan.act(create(cron, &runs::new(cron, &clock.at(due))));
    }
    status.last_schedule_time = Some(Time(due));
}

fn create(cron: &CronJob, job: &Job) -> Action {
    Action::create(job).telling(OutcomeEvents {
        regarding: Regarding::of(cron),
        done: ("SuccessfulCreate", "Created job "),
        failed: ("FailedCreate", "Error creating job: "),
    })
}
