//! How many pods there are, of which revision.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};

use super::identity::revision_of;
use super::plan::Round;
use crate::history::name;
use crate::pods;

pub(super) fn tell(round: &mut Round<'_>) {
    let set = round.set;
    let seconds = set.spec.min_ready_seconds.unwrap_or(0);
    let old = set.status.clone().unwrap_or_default();
    let (mut current, newest) = (name(&round.current).to_owned(), name(&round.newest).to_owned());
    let count = |is: &dyn Fn(&k8s_openapi::api::core::v1::Pod) -> bool| {
        i32::try_from(round.pods.values().filter(|pod| is(pod)).count()).unwrap_or(i32::MAX)
    };
    let replicas = count(&|_| true);
    let ready = count(&|pod| pods::is_active(pod) && pods::is_ready(pod));
    let available = count(&|pod| pods::is_active(pod) && pods::is_available(pod, seconds, round.now));
    let is_of =
        |revision: &str| count(&|pod| !pods::is_terminating(pod) && revision_of(pod) == Some(revision));
    let updated = is_of(&newest);
    let wanted = set.spec.replicas.unwrap_or(1);
    let rolls = set.spec.update_strategy.as_ref().is_none_or(|s| s.type_.as_deref() != Some("OnDelete"));
    // All pods are of the newest revision: it is the current one now.
    if rolls && updated == wanted && replicas == wanted && ready == wanted {
        current.clone_from(&newest);
    }
    let some = |count: i32| (count != 0).then_some(count);
    let status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas,
        ready_replicas: some(ready),
        available_replicas: Some(available),
        current_replicas: some(is_of(&current)),
        updated_replicas: some(updated),
        current_revision: Some(current),
        update_revision: Some(newest),
        collision_count: Some(old.collision_count.unwrap_or(0)),
        conditions: old.conditions,
    };
    let all: Vec<_> = round.pods.values().cloned().collect();
    if let Some(at) = pods::next_available(&all, seconds, round.now) {
        round.plan.again_at(at, round.now);
    }
    round.plan.status(set, StatefulSet { status: Some(status), ..set.clone() });
}
