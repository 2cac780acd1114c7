//! From pods to slices and Endpoints.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::IpFamily;
use minik8s_runtime::{EventRecord, Plan};

use super::backend::{Backend, families};
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
    let families = families(&seen.service);
    for family in [IpFamily::V4, IpFamily::V6] {
        let wanted = families.contains(&family);
        let backends: Vec<Backend> = pods
            .iter()
            .filter(|_| wanted)
            .filter_map(|pod| Backend::of(&seen.service, pod, &seen.zones, family))
            .collect();
        slices::reconcile(seen, family, wanted, &backends, changed_at, &mut plan);
        if families.first() == Some(&family) {
            legacy::reconcile(seen, &backends, &mut plan);
        }
    }
    // Said when the endpoints change, not whenever somebody looks.
    if pods.is_empty() && !plan.actions.is_empty() {
        plan.event(nobody(&seen.service));
    }
    plan
}

fn nobody(service: &Service) -> EventRecord {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let labels = selector.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let labels = labels.collect::<Vec<_>>().join(",");
    let message = format!(
        "no pod has the labels {labels}: connections are refused until there is one; \
         compare with `kubectl get pods --show-labels`"
    );
    EventRecord::normal(service, "NoPods", message)
}

/// When a pod last changed in a way that Services see.
fn changed(pod: &k8s_openapi::api::core::v1::Pod) -> Option<Timestamp> {
    let ready = pods::condition(pod, "Ready").and_then(|c| c.last_transition_time.as_ref());
    let deleted = pod.metadata.deletion_timestamp.as_ref();
    ready.into_iter().chain(deleted).map(|time| time.0).max()
}
