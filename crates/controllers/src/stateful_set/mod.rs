//! StatefulSets: pods with names, places and claims of their own, that come and go in order.
//!
//! `plan` follows upstream: fill the ordinals from below (one at a time unless `Parallel`), remove what is
//! above from the top, then bring pods to the newest revision from the top down to the partition. Claims
//! outlive their pods unless the retention policy says otherwise.

mod claims;
mod identity;
mod plan;
mod status;
mod update;

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Selector, Watches};

use crate::claim::Candidates;
use crate::history::Revisions;
use crate::orphans::wake_owners_of_orphans;

pub struct StatefulSets;

pub struct Observed {
    set: Arc<StatefulSet>,
    pods: Candidates<Pod>,
    revisions: Revisions,
    /// The claims of the set, by name.
    claims: HashMap<String, Arc<PersistentVolumeClaim>>,
}

impl Controller for StatefulSets {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "statefulset-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<StatefulSet>();
        watches.owned::<Pod, StatefulSet>();
        watches.owned::<ControllerRevision, StatefulSet>();
        wake_owners_of_orphans::<Pod, StatefulSet>(watches, selector);
        wake_owners_of_orphans::<ControllerRevision, StatefulSet>(watches, selector);
        watches.on::<PersistentVolumeClaim>(|caches, claim| {
            let sets =
                caches.of::<StatefulSet>().in_namespace(claim.metadata.namespace.as_deref().unwrap_or(""));
            let name = claim.metadata.name.as_deref().unwrap_or("");
            let owners = sets.iter().filter(|set| claims::belongs_to(set, name));
            owners.map(|set| minik8s_runtime::key_of(&**set)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let set = caches.of::<StatefulSet>().get(key)?;
        let mut pods = Candidates::of(&caches.of::<Pod>(), &*set, &selector(&set));
        // Only pods with a name of this set's can be adopted.
        pods.orphans.retain(|pod| identity::ordinal(&set, pod).is_some());
        let revisions = Revisions::of(caches, &*set, &selector(&set), &set.spec.template, collisions(&set));
        let mut claims = HashMap::new();
        if set.spec.volume_claim_templates.is_some() {
            for claim in caches.of::<PersistentVolumeClaim>().in_namespace(&key.namespace) {
                let name = claim.metadata.name.clone().unwrap_or_default();
                if claims::belongs_to(&set, &name) {
                    claims.insert(name, claim);
                }
            }
        }
        Some(Observed { set, pods, revisions, claims })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

fn selector(set: &StatefulSet) -> Selector {
    Selector::new(Some(&set.spec.selector))
}

/// How often the name of a revision was taken by another.
fn collisions(set: &StatefulSet) -> i32 {
    set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0)
}

#[cfg(test)]
mod tests;
