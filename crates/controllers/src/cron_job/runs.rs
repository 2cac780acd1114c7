//! The Jobs of a CronJob.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::{Timestamp, Zoned};
use minik8s_runtime::owner_reference;

use crate::job::finished;

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// What `kubectl create job --from` writes.
const MANUAL: &str = "cronjob.kubernetes.io/instantiate";

/// The name of the run at a time: after its minute, or its second if it is between two minutes.
pub(super) fn name(cron: &CronJob, at: Timestamp) -> String {
    let seconds = at.as_second();
    let number = if seconds % 60 == 0 { seconds / 60 } else { seconds };
    format!("{}-{number}", cron.metadata.name.as_deref().unwrap_or(""))
}

pub(super) fn new(cron: &CronJob, at: &Zoned) -> Job {
    let template = &cron.spec.job_template;
    let wanted = template.metadata.clone().unwrap_or_default();
    let mut annotations = wanted.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string());
    Job {
        metadata: ObjectMeta {
            name: Some(name(cron, at.timestamp())),
            namespace: cron.metadata.namespace.clone(),
            labels: wanted.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![owner_reference(cron)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Runs that were started by the clock and go on. Those that people started do not count.
pub(super) fn is_active(job: &Job) -> bool {
    let by_hand = job.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(MANUAL));
    finished(job).is_none() && job.metadata.deletion_timestamp.is_none() && !by_hand
}

pub(super) fn has_succeeded(job: &Job) -> bool {
    finished(job).is_some_and(|condition| condition.type_ == "Complete")
}

pub(super) fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        name: job.metadata.name.clone(),
        namespace: job.metadata.namespace.clone(),
        uid: job.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}
