//! The pods of a Job.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::jiff::Timestamp;

use crate::pods;
use crate::template::pod_for;

/// Keeps a finished pod until it is counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// A pod of the Job; `index` is its completion index and how often that index failed before.
pub(super) fn new(job: &Job, index: Option<(i32, Option<i32>)>) -> Option<Pod> {
    let template = &job.spec.as_ref()?.template;
    let mut pod = pod_for(job, template);
    pod.metadata.finalizers.get_or_insert_default().push(TRACKING.to_owned());
    if let Some((index, failures)) = index {
        let name = job.metadata.name.as_deref().unwrap_or("");
        pod.metadata.generate_name = Some(format!("{name}-{index}-"));
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(INDEX.to_owned(), index.to_string());
        if let Some(failures) = failures {
            annotations.insert(FAILURES.to_owned(), failures.to_string());
        }
        pod.metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
        let spec = pod.spec.get_or_insert_default();
        spec.hostname = Some(format!("{name}-{index}"));
        for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
            let variables = container.env.get_or_insert_default();
            if variables.iter().all(|variable| variable.name != INDEX_VARIABLE) {
                variables.push(index_variable());
            }
        }
    }
    Some(pod)
}

fn index_variable() -> EnvVar {
    EnvVar {
        name: INDEX_VARIABLE.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: format!("metadata.labels['{INDEX}']"),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
    }
}

pub(super) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or("")
}

pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.as_ref().is_some_and(|f| f.iter().any(|finalizer| finalizer == TRACKING))
}

pub(super) fn index(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(INDEX)?.parse().ok()
}

/// How often the pod's index had failed before it.
pub(super) fn earlier_failures(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|a| a.get(FAILURES)).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// When a finished pod ended.
pub(super) fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let ends =
        status.container_statuses.iter().flatten().filter_map(|container| {
            Some(container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)
        });
    let unready = || pods::condition(pod, "Ready")?.last_transition_time.as_ref().map(|time| time.0);
    ends.max().or_else(unready).or_else(|| pods::created(pod))
}

/// Restarts of all containers together.
pub(super) fn restarts(pod: &Pod) -> i32 {
    let Some(status) = &pod.status else { return 0 };
    let containers = status.container_statuses.iter().flatten();
    let all = containers.chain(status.init_container_statuses.iter().flatten());
    all.map(|c| c.restart_count).fold(0, i32::saturating_add)
}
