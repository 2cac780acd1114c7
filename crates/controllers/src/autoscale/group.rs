//! Which pods' metrics count.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::samples::PodSample;
use crate::pods;

/// So long after a pod's start its CPU metrics count only while it is ready.
const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_mins(5);
/// Pods that became unready within so long of their start were never ready.
const INITIAL_READINESS_DELAY: SignedDuration = SignedDuration::from_secs(30);

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Groups<'a> {
    /// Measured, with their amounts.
    pub ready: BTreeMap<&'a str, i64>,
    pub unready: Vec<&'a str>,
    pub missing: Vec<&'a str>,
}

/// Sorts the pods of a target by what their metrics are worth. Pods that are on their way out or failed count
/// for nothing.
pub fn group<'a>(
    all: &'a [Arc<Pod>],
    is_cpu: bool,
    now: Timestamp,
    sample_of: impl Fn(&Pod) -> Option<(i64, &'a PodSample)>,
) -> Groups<'a> {
    let mut groups = Groups::default();
    for pod in all.iter().filter(|pod| !pods::is_terminating(pod) && pods::phase(pod) != "Failed") {
        let name = pod.metadata.name.as_deref().unwrap_or("");
        if pods::phase(pod) == "Pending" {
            groups.unready.push(name);
            continue;
        }
        match sample_of(pod) {
            None => groups.missing.push(name),
            Some((_, sample)) if is_cpu && is_unready(pod, sample, now) => groups.unready.push(name),
            Some((amount, _)) => {
                groups.ready.insert(name, amount);
            }
        }
    }
    groups
}

/// CPU is spent on starting up, too: that must not look like load.
fn is_unready(pod: &Pod, sample: &PodSample, now: Timestamp) -> bool {
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    let Some((condition, started)) = pods::condition(pod, "Ready").zip(started) else { return true };
    let changed = condition.last_transition_time.as_ref().map_or(started, |time| time.0);
    let not_ready = condition.status == "False";
    if started + CPU_INITIALIZATION > now {
        not_ready || sample.at < changed + sample.window
    } else {
        not_ready && started + INITIAL_READINESS_DELAY > changed
    }
}
