//! DaemonSets: one pod on every node that is meant to have it.

mod placement;
mod plan;
mod status;
mod update;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Selector, Watches, key_of};

use crate::claim::Candidates;
use crate::history::Revisions;
use crate::orphans::wake_owners_of_orphans;

pub struct DaemonSets;

pub struct Observed {
    set: Arc<DaemonSet>,
    pods: Candidates<Pod>,
    revisions: Revisions,
    nodes: Vec<Arc<Node>>,
}

impl Controller for DaemonSets {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "daemonset-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<DaemonSet>();
        watches.owned::<Pod, DaemonSet>();
        watches.owned::<ControllerRevision, DaemonSet>();
        wake_owners_of_orphans::<Pod, DaemonSet>(watches, selector);
        wake_owners_of_orphans::<ControllerRevision, DaemonSet>(watches, selector);
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            // Heartbeats make no difference.
            if old.map(placement::relevant) == new.map(placement::relevant) {
                return Vec::new();
            }
            let sets = caches.upgrade().map(|caches| caches.of::<DaemonSet>().list()).unwrap_or_default();
            sets.iter().map(|set| key_of(&**set)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let set = caches.of::<DaemonSet>().get(key)?;
        let revisions = Revisions::of(caches, &*set, &selector(&set), &set.spec.template, collisions(&set));
        let pods = Candidates::of(&caches.of::<Pod>(), &*set, &selector(&set));
        Some(Observed { revisions, pods, nodes: caches.of::<Node>().list(), set })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

fn selector(set: &DaemonSet) -> Selector {
    Selector::new(Some(&set.spec.selector))
}

/// How often the name of a revision was taken by another.
fn collisions(set: &DaemonSet) -> i32 {
    set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0)
}

#[cfg(test)]
mod tests;
