//! How many nodes have what they should.

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::Pod;

use super::plan::Round;
use crate::pods;

pub(super) fn tell(round: &mut Round<'_>) {
    let set = round.set;
    let seconds = set.spec.min_ready_seconds.unwrap_or(0);
    let old = set.status.clone().unwrap_or_default();
    let mut status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        collision_count: old.collision_count,
        conditions: old.conditions,
        ..DaemonSetStatus::default()
    };
    let (mut updated, mut available) = (0, 0);
    for place in &round.places {
        let active: Vec<&Pod> = place.pods.iter().map(|p| &**p).filter(|pod| pods::is_active(pod)).collect();
        if !place.should_run {
            status.number_misscheduled += i32::from(!active.is_empty());
            continue;
        }
        status.desired_number_scheduled += 1;
        if active.is_empty() {
            continue;
        }
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(active.iter().any(|pod| pods::is_ready(pod)));
        available += i32::from(active.iter().any(|pod| pods::is_available(pod, seconds, round.now)));
        updated += i32::from(active.iter().any(|pod| round.is_current(pod)));
        for at in
            active.iter().filter_map(|pod| pods::available_at(pod, seconds)).filter(|at| *at > round.now)
        {
            round.plan.again_at(at, round.now);
        }
    }
    let some = |count: i32| (count != 0).then_some(count);
    status.updated_number_scheduled = some(updated);
    status.number_available = some(available);
    status.number_unavailable = some(status.desired_number_scheduled - available);
    round.plan.status(set, DaemonSet { status: Some(status), ..set.clone() });
}
