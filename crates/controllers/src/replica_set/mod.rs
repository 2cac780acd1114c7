//! ReplicaSets and ReplicationControllers: so many pods of a template, no more, no less.
//!
//! Both kinds are the same loop; [`Replicated`] hides how they spell their fields. Pods that crash for good
//! are replaced at once, but a template whose pods keep failing is replaced ever more slowly.

mod kinds;
mod plan;

use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches};

pub use kinds::{Replicated, ReplicatedStatus};

use crate::claim::Candidates;
use crate::orphans::wake_owners_of_orphans;

/// The controller of one of the two kinds.
pub struct Replicas<O>(PhantomData<fn() -> O>);

impl<O> Default for Replicas<O> {
    fn default() -> Self {
        Replicas(PhantomData)
    }
}

pub struct Observed<O> {
    pub owner: Arc<O>,
    pub pods: Candidates<Pod>,
}

impl<O: Replicated> Controller for Replicas<O> {
    type Key = Key;
    type Observed = Observed<O>;

    fn name(&self) -> &'static str {
        O::CONTROLLER
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<O>();
        watches.owned::<Pod, O>();
        wake_owners_of_orphans::<Pod, O>(watches, |owner: &O| owner.selector());
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed<O>> {
        let owner = caches.of::<O>().get(key)?;
        let pods = Candidates::of(&caches.of::<Pod>(), &*owner, &owner.selector());
        Some(Observed { owner, pods })
    }

    fn plan(&self, seen: &Observed<O>, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }

    fn plan_failure(&self, seen: &Observed<O>, error: &str, now: Timestamp) -> Plan {
        plan::plan_failure(seen, error, now)
    }
}

#[cfg(test)]
mod tests;
