//! From pods to slices and Endpoints.

use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::Plan;

use super::backend::{Backend, Family};
use super::{Observed, legacy, slices};
use crate::pods;

pub(super) fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if seen.service.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    // Old pods first, so that the order is the same in every run.
    let mut pods = seen.pods.clone();
    pods.sort_by_key(|pod| (pods::created(pod), pod.metadata.name.clone()));
    let changed_at = pods.iter().filter_map(|pod| changed(pod)).max().unwrap_or(now);
    for family in [Family::V4, Family::V6] {
        let wanted = Family::of(&seen.service).contains(&family);
        let backends: Vec<Backend> = pods
            .iter()
            .filter(|_| wanted)
            .filter_map(|pod| Backend::of(&seen.service, pod, &seen.zones, family))
            .collect();
        slices::reconcile(seen, family, wanted, &backends, changed_at, &mut plan);
        if Family::of(&seen.service).first() == Some(&family) {
            legacy::reconcile(seen, &backends, &mut plan);
        }
    }
    plan
}

/// When a pod last changed in a way that Services see.
fn changed(pod: &k8s_openapi::api::core::v1::Pod) -> Option<Timestamp> {
    let ready = pods::condition(pod, "Ready").and_then(|c| c.last_transition_time.as_ref());
    let deleted = pod.metadata.deletion_timestamp.as_ref();
    ready.into_iter().chain(deleted).map(|time| time.0).max()
}
