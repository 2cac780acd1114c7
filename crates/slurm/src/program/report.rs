//! What the object's status says: made of a decision, written as a merge patch, told as events.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use kube::api::{Patch, PatchParams};
use minik8s_runtime::{EventType, Recorder, Regarding};
use serde_json::{Value, json};

use crate::decide::{Decision, Step};
use crate::kinds::{Accounting, GpuJob, GpuJobStatus, Phase};
use crate::seen::Seen;

/// Longer messages are cut at their beginning: a compiler's last words are the ones that matter.
const LONGEST: usize = 4096;

/// The status that a look leads to. Ends are told only when all is brought back: see [`ended`].
pub fn status(old: &GpuJobStatus, decision: &Decision, seen: &Seen, now: Timestamp) -> GpuJobStatus {
    let mut status = old.clone();
    status.unreachable_since = None;
    status.phase = match decision.step {
        Step::Finish => Phase::Fetching,
        _ if decision.phase.is_over() => old.phase,
        _ => decision.phase,
    };
    status.reason = decision.reason.clone();
    status.message = decision.message.as_deref().map(shortened);
    status.directory = seen.directory.clone().or(status.directory);
    status.slurm_id = decision.tasks.first().map(|task| task.id.job).or(seen.job_id).or(status.slurm_id);
    status.exit_code = decision.exit_code;
    status.signal = decision.signal;
    let known = |pick: fn(&crate::decide::Task) -> &String| {
        decision.tasks.iter().map(pick).find(|text| !text.is_empty() && !text.starts_with("None")).cloned()
    };
    status.partition = known(|task| &task.partition).or(status.partition);
    status.nodes = known(|task| &task.nodes).or(status.nodes);
    status.tasks = decision.task_statuses();
    status.accounting = accounting(decision).or(status.accounting);
    if status.slurm_id.is_some() {
        status.submit_time.get_or_insert(Time(now));
    }
    if decision.phase == Phase::Running || (decision.step == Step::Finish && !decision.tasks.is_empty()) {
        status.start_time.get_or_insert(Time(now));
    }
    status
}

/// The task that took longest stands for an array.
fn accounting(decision: &Decision) -> Option<Accounting> {
    let accounts = decision.tasks.iter().filter_map(|task| task.accounting.clone());
    accounts.max_by(|a, b| a.elapsed.cmp(&b.elapsed))
}

/// The status of a job that is over.
pub fn ended(mut status: GpuJobStatus, phase: Phase, now: Timestamp) -> GpuJobStatus {
    status.phase = phase;
    status.completion_time.get_or_insert(Time(now));
    let kind = if phase == Phase::Completed { "Complete" } else { "Failed" };
    status.conditions = vec![Condition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: status.reason.clone().unwrap_or_else(|| format!("{phase:?}")),
        message: status.message.clone().unwrap_or_default(),
        last_transition_time: Time(now),
        observed_generation: None,
    }];
    status
}

fn shortened(text: &str) -> String {
    let mut from = text.len().saturating_sub(LONGEST);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}

/// Writes a status, if it differs; fields that are gone are taken away.
pub async fn write(api: &Api<GpuJob>, job: &GpuJob, status: &GpuJobStatus) -> kube::Result<()> {
    let old = job.status.clone().unwrap_or_default();
    if job.status.is_some() && old == *status {
        return Ok(());
    }
    let patch = json!({"metadata": {"uid": job.metadata.uid}, "status": difference(&old, status)});
    api.patch_status(job.name(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

fn difference(old: &GpuJobStatus, new: &GpuJobStatus) -> Value {
    let to_map = |status: &GpuJobStatus| match serde_json::to_value(status) {
        Ok(Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let (old, mut new) = (to_map(old), to_map(new));
    for field in old.keys().filter(|field| !new.contains_key(*field)).cloned().collect::<Vec<_>>() {
        new.insert(field, Value::Null);
    }
    Value::Object(new)
}

/// Tells of a change. Events may be lost: nothing depends on them.
pub fn tell(recorder: &Recorder, job: &GpuJob, status: &GpuJobStatus) {
    let phase = status.phase;
    let severity = match phase {
        Phase::Failed | Phase::TimedOut => EventType::Warning,
        _ => EventType::Normal,
    };
    let number = status.slurm_id.map(|id| format!("Slurm job {id}")).unwrap_or_default();
    let message = match (phase, &status.message) {
        (Phase::Queued | Phase::Running, _) => number,
        (_, Some(message)) => message.clone(),
        _ => number,
    };
    recorder.report("slurm-submit", Regarding::of(job), severity, &format!("{phase:?}"), &message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_gone_are_taken_away() {
        let old = GpuJobStatus { message: Some("x".to_owned()), attempt: 1, ..GpuJobStatus::default() };
        let new = GpuJobStatus { phase: Phase::Running, ..GpuJobStatus::default() };
        let patch = difference(&old, &new);
        assert_eq!(patch, json!({"state": "Running", "attempt": 0, "cleaned": false, "message": null}));
    }

    #[test]
    fn long_messages_keep_their_end() {
        let text = format!("{}end", "é".repeat(4000));
        assert!(shortened(&text).ends_with("end") && shortened(&text).len() <= LONGEST);
    }
}
