//! RollingUpdate: the pods of a Service, replaced batch by batch without a request lost. What wakes it and what it looks
//! at; the decisions are in [`plan`].
//!
//! Pods of a batch get no new requests ([`minik8s_meta::mesh::MeshUpdate`] takes them out of what proxies are told), and
//! go when every node has said that its proxies follow, and nothing is under way. New ones count when they are ready and
//! every proxy sends them requests. It never replaces pods that are another controller's.

mod errors;
mod kind;
mod plan;
mod template;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_meta::mesh::{MeshProgress, MeshProgressSpec, MeshUpdate};
use minik8s_runtime::{Caches, Controller, Key, Plan, Selector, Watches};

pub use kind::{Batch, RollingUpdate, RollingUpdateStatus, resource};

use crate::controller::proxy;

pub struct RollingUpdateController;

/// All that a plan is made of.
pub struct Observed {
    pub update: Arc<RollingUpdate>,
    pub service: Option<Arc<Service>>,
    /// That the Service selects, the oldest first.
    pub pods: Vec<Arc<Pod>>,
    /// Another one that is at work on the Service.
    pub other: Option<String>,
    /// Nodes with proxies that run.
    pub nodes: BTreeSet<String>,
    /// What nodes say.
    pub progress: BTreeMap<String, MeshProgressSpec>,
}

impl Controller for RollingUpdateController {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "rolling-update-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.on::<RollingUpdate>(|caches, one| of_namespace(caches, &one.metadata));
        watches.on::<Service>(|caches, service| of_namespace(caches, &service.metadata));
        watches.on::<Pod>(|caches, pod| of_namespace(caches, &pod.metadata));
        watches.on::<MeshProgress>(|_, progress| {
            let name = progress.metadata.name.as_deref().unwrap_or_default();
            let namespace = progress.metadata.namespace.as_deref().unwrap_or_default();
            name.split_once('.').map(|(update, _)| Key::new(namespace, update)).into_iter().collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let update = caches.of::<RollingUpdate>().get(key)?;
        let service =
            caches.of::<Service>().get(&Key::new(&*key.namespace, update.spec.service_ref.as_str()));
        let labels = service.as_ref().and_then(|service| service.spec.as_ref()?.selector.as_ref());
        let selector = Selector::equal(labels);
        let mut pods = caches.of::<Pod>().in_namespace(&key.namespace);
        pods.retain(|pod| selector.matches_object(&pod.metadata));
        pods.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.metadata.name.clone()));
        let working = working(caches, &key.namespace, &update.spec.service_ref);
        let other = working.and_then(|one| one.metadata.name.clone()).filter(|name| *name != key.name);
        let progress = caches.of::<MeshProgress>().in_namespace(&key.namespace);
        let of_node = |one: &Arc<MeshProgress>| {
            let (name, node) = one.metadata.name.as_deref()?.split_once('.')?;
            let is_it = name == key.name && Some(&one.spec.uid) == update.metadata.uid.as_ref();
            is_it.then(|| (node.to_owned(), one.spec.clone()))
        };
        Some(Observed {
            progress: progress.iter().filter_map(of_node).collect(),
            nodes: caches.of::<Pod>().list().iter().filter_map(|pod| Some(proxy(pod)?.1)).collect(),
            update,
            service,
            pods,
            other,
        })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

/// What proxies are told of the Service's update, if there is one.
pub fn update_of(caches: &Caches, namespace: &str, service: &str) -> Option<MeshUpdate> {
    let update = working(caches, namespace, service)?;
    let status = update.status.as_ref()?;
    // Until they are gone: slices say a moment later than the pod that it ends.
    let batch = status.batch.as_ref();
    Some(MeshUpdate {
        name: update.metadata.name.clone().unwrap_or_default(),
        uid: update.metadata.uid.clone().unwrap_or_default(),
        draining: batch.map(|batch| batch.pods.clone()).unwrap_or_default(),
        in_flight: batch.is_some_and(|batch| batch.step == plan::IN_FLIGHT),
    })
}

/// Those that a change of their Service is told to.
pub fn services(caches: &Caches, one: &RollingUpdate) -> Vec<Key> {
    let namespace = one.metadata.namespace.as_deref().unwrap_or_default();
    let key = Key::new(namespace, one.spec.service_ref.as_str());
    caches.of::<Service>().get(&key).map(|_| key).into_iter().collect()
}

/// The oldest that is not over has the Service.
fn working(caches: &Caches, namespace: &str, service: &str) -> Option<Arc<RollingUpdate>> {
    let all = caches.of::<RollingUpdate>().in_namespace(namespace);
    let is_at_work = |one: &&Arc<RollingUpdate>| {
        one.spec.service_ref == service
            && one.metadata.deletion_timestamp.is_none()
            && !plan::is_over(one)
            && !plan::is_stuck(one)
    };
    let age =
        |one: &&Arc<RollingUpdate>| (one.metadata.creation_timestamp.clone(), one.metadata.name.clone());
    all.iter().filter(is_at_work).min_by_key(age).cloned()
}

/// Those that still go on.
fn of_namespace(caches: &Caches, meta: &ObjectMeta) -> Vec<Key> {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let all = caches.of::<RollingUpdate>().in_namespace(namespace);
    let name = |one: &Arc<RollingUpdate>| one.metadata.name.clone().unwrap_or_default();
    all.iter().filter(|one| !plan::is_over(one)).map(|one| Key::new(namespace, name(one))).collect()
}
