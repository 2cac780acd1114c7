//! PodDisruptionBudgets: how many pods may be taken away right now.
//!
//! Only counts and tells; the eviction subresource of the API decides on these numbers and writes each pod
//! that it lets go into `disruptedPods`, so that two evictions never spend the same allowance.

mod expected;
mod plan;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Object, Plan, Selector, Watches, key_of};

use expected::Scale;

pub struct DisruptionBudgets;

pub struct Observed {
    budget: Arc<PodDisruptionBudget>,
    pods: Vec<Arc<Pod>>,
    /// How many pods those who control them want in all; Err names what cannot tell.
    scale: Result<Scale, String>,
}

impl Controller for DisruptionBudgets {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<PodDisruptionBudget>();
        watches.on::<Pod>(|caches, pod| {
            let budgets = of_namespace(caches, pod);
            let concerned = budgets.iter().filter(|budget| selector(budget).matches_object(&pod.metadata));
            concerned.map(|budget| key_of(&**budget)).collect()
        });
        on_scale::<Deployment>(watches, |d| d.spec.replicas);
        on_scale::<ReplicaSet>(watches, |set| set.spec.replicas);
        on_scale::<StatefulSet>(watches, |set| set.spec.replicas);
        on_scale::<ReplicationController>(watches, |rc| rc.spec.as_ref()?.replicas);
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let budget = caches.of::<PodDisruptionBudget>().get(key)?;
        let selector = selector(&budget);
        let mut pods = caches.of::<Pod>().in_namespace(&key.namespace);
        pods.retain(|pod| selector.matches_object(&pod.metadata));
        let scale = Scale::of(caches, &key.namespace, &pods);
        Some(Observed { budget, pods, scale })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

fn selector(budget: &PodDisruptionBudget) -> Selector {
    Selector::new(budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
}

fn of_namespace<K: Object>(caches: &Caches, object: &K) -> Vec<Arc<PodDisruptionBudget>> {
    caches.of::<PodDisruptionBudget>().in_namespace(object.meta().namespace.as_deref().unwrap_or(""))
}

/// A workload that wants another number of pods may concern every budget of its namespace.
fn on_scale<K: Object>(watches: &Watches<Key>, size: fn(&K) -> Option<i32>) {
    let caches = Arc::downgrade(watches.caches());
    watches.on_change::<K>(move |old, new| {
        let same = matches!((old, new), (Some(old), Some(new)) if size(old) == size(new));
        let Some(caches) = caches.upgrade().filter(|_| !same) else { return Vec::new() };
        let budgets = old.or(new).map(|object| of_namespace(&caches, object)).unwrap_or_default();
        budgets.iter().map(|budget| key_of(&**budget)).collect()
    });
}

#[cfg(test)]
mod tests;
