//! Deployments: a ReplicaSet per version of the template, and the roll from the old ones to the new.
//!
//! `plan` walks the same decisions as upstream: find or make the ReplicaSet of the current template, scale
//! in proportion when only the number changed, roll by surge and unavailability or recreate, keep some
//! history, and tell progress in conditions. It never touches pods.

mod limits;
mod plan;
mod recreate;
mod revision;
mod rolling;
mod scale;
mod status;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Selector, Watches, controller_of, key_of};

pub use limits::portion;

use crate::claim::Candidates;
use crate::orphans::wake_owners_of_orphans;

pub struct Deployments;

pub struct Observed {
    pub deployment: Arc<Deployment>,
    pub sets: Candidates<ReplicaSet>,
    /// Whoever has the name that the next ReplicaSet would get.
    pub name_holder: Option<Arc<ReplicaSet>>,
    /// UIDs of ReplicaSets that still have unfinished pods. Only looked at for `Recreate`.
    pub sets_with_pods: Vec<String>,
}

impl Controller for Deployments {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "deployment-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Deployment>();
        watches.owned::<ReplicaSet, Deployment>();
        wake_owners_of_orphans::<ReplicaSet, Deployment>(watches, selector);
        // Recreate waits for the last old pod to go.
        watches.on::<Pod>(|caches, pod| recreating_owner(caches, pod).into_iter().collect());
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let deployment = caches.of::<Deployment>().get(key)?;
        let cache = caches.of::<ReplicaSet>();
        let sets = Candidates::of(&cache, &*deployment, &selector(&deployment));
        let next = Key::new(&*key.namespace, revision::set_name(&deployment));
        let mut sets_with_pods = Vec::new();
        if is_recreate(&deployment) {
            let pods = caches.of::<Pod>();
            let uids = sets.owned.iter().filter_map(|set| set.metadata.uid.clone());
            sets_with_pods.extend(
                uids.filter(|uid| pods.controlled_by(uid).iter().any(|pod| !crate::pods::is_finished(pod))),
            );
        }
        Some(Observed { name_holder: cache.get(&next), deployment, sets, sets_with_pods })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

fn selector(deployment: &Deployment) -> Selector {
    Selector::new(Some(&deployment.spec.selector))
}

fn is_recreate(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.strategy.as_ref();
    strategy.is_some_and(|strategy| strategy.type_.as_deref() == Some("Recreate"))
}

fn recreating_owner(caches: &Caches, pod: &Pod) -> Option<Key> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
    let set = controller_of(&pod.metadata).filter(|owner| owner.kind == "ReplicaSet")?;
    let set = caches.of::<ReplicaSet>().get(&Key::new(namespace, &*set.name))?;
    let owner = controller_of(&set.metadata).filter(|owner| owner.kind == "Deployment")?;
    let deployment = caches.of::<Deployment>().get(&Key::new(namespace, &*owner.name))?;
    is_recreate(&deployment).then(|| key_of(&*deployment))
}

#[cfg(test)]
mod tests;
