//! ResourceQuotas: counts again what a namespace uses.
//!
//! Admission charges a quota in the commit that makes or grows an object; here usage goes down when objects
//! go or finish, and comes right when a quota is new or was changed. The write is refused when a charge came
//! in between, and a charge stands until the cache shows the object that it was for (see [`charges`]), so no
//! charge is ever lost.

mod charges;
mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::quota::{self, Usage};
use minik8s_runtime::{Caches, Catalog, Controller, Key, Kind, Object, Plan, Watches, is_event, key_of};
use serde_json::{Value, json};

use self::charges::{Charges, used_of};

/// Kinds that are counted by their plain name.
const COUNTED: [&str; 4] = ["configmaps", "secrets", "replicationcontrollers", "resourcequotas"];

pub struct Quotas {
    catalog: Arc<Catalog>,
    charges: Arc<Charges>,
}

impl Quotas {
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Quotas { catalog, charges: Arc::default() }
    }
}

pub struct Observed {
    quota: Arc<ResourceQuota>,
    /// What is used of everything that the quota limits.
    used: Usage,
    /// Resources for which a charge stands whose object is still to be seen.
    awaited: BTreeSet<String>,
}

impl Controller for Quotas {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        let charges = self.charges.clone();
        watches.on_change::<ResourceQuota>(move |old, new| {
            charges.note(old, new);
            old.or(new).map(key_of).into_iter().collect()
        });
        on_growth::<Pod>(watches);
        on_growth::<Service>(watches);
        on_growth::<PersistentVolumeClaim>(watches);
        // All others are only counted.
        let (caches, sink) = (Arc::downgrade(watches.caches()), watches.sink());
        self.catalog.follow(Box::new(move |kind| {
            let Some(known) = caches.upgrade().filter(|_| kind.namespaced && !is_event(kind)) else { return };
            let (caches, sink) = (caches.clone(), sink.clone());
            known.of_kind(kind).listen_metadata(Box::new(move |_, (old, new)| {
                let Some(caches) = caches.upgrade().filter(|_| old.is_none() || new.is_none()) else {
                    return;
                };
                old.or(new)
                    .map(|meta| quotas_of(&caches, meta))
                    .into_iter()
                    .flatten()
                    .for_each(|key| sink(key));
            }));
        }));
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let quota = caches.of::<ResourceQuota>().get(key)?;
        // Asked before the objects are: what comes between is one thing more that is seen.
        let known = used_of(&quota);
        let awaited: BTreeSet<String> = known
            .keys()
            .filter(|name| reached(caches, name) < self.charges.version(&quota, name))
            .cloned()
            .collect();
        let mut used = used(caches, &quota, &key.namespace);
        for (name, amount) in known.into_iter().filter(|(name, _)| awaited.contains(name)) {
            used.entry(name).and_modify(|counted| *counted = amount);
        }
        self.charges.counted(&quota, &used);
        Some(Observed { quota, used, awaited })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        plan::plan(seen)
    }
}

fn quotas_of(caches: &Caches, meta: &ObjectMeta) -> Vec<Key> {
    let quotas = caches.of::<ResourceQuota>().in_namespace(meta.namespace.as_deref().unwrap_or(""));
    quotas.iter().map(|quota| key_of(&**quota)).collect()
}

/// Wakes the quotas of a namespace when an object there begins to use more or less.
fn on_growth<K: Object>(watches: &Watches<Key>) {
    let caches = Arc::downgrade(watches.caches());
    watches.on_change::<K>(move |old, new| {
        let Some((caches, object)) = caches.upgrade().zip(old.or(new)) else { return Vec::new() };
        let quotas = quotas_of(&caches, object.meta());
        if quotas.is_empty() || old.map(usage) == new.map(usage) {
            return Vec::new();
        }
        quotas
    });
}

fn usage<K: Object>(object: &K) -> Usage {
    quota::usage_of(&K::group(&()), &K::plural(&()), &json!(object))
}

fn used(caches: &Caches, quota: &ResourceQuota, namespace: &str) -> Usage {
    let limited = quota.spec.as_ref().and_then(|spec| spec.hard.clone()).unwrap_or_default();
    let whole = json!(quota);
    let mut used = Usage::new();
    let lists = [
        of_kind::<Pod>(caches, namespace),
        of_kind::<Service>(caches, namespace),
        of_kind::<PersistentVolumeClaim>(caches, namespace),
    ];
    for (group, plural, objects) in lists {
        for object in objects.iter().filter(|object| quota::applies(&whole, object)) {
            for (name, amount) in quota::usage_of(&group, &plural, object) {
                if limited.contains_key(&name) {
                    let sum = used.get(&name).copied().unwrap_or_default() + amount;
                    used.insert(name, sum);
                }
            }
        }
    }
    for name in limited.keys().filter(|name| !used.contains_key(*name)).cloned().collect::<Vec<_>>() {
        let amount = counted(caches, &name, namespace, &whole);
        used.insert(name, amount);
    }
    used
}

fn of_kind<K: Object>(caches: &Caches, namespace: &str) -> (String, String, Vec<Value>) {
    let objects = caches.of::<K>().in_namespace(namespace).iter().map(|object| json!(**object)).collect();
    (K::group(&()).into_owned(), K::plural(&()).into_owned(), objects)
}

/// How far the cache has come from which this resource is counted.
fn reached(caches: &Caches, name: &str) -> u64 {
    let (plural, group) = match name.strip_prefix("count/") {
        Some(counted) => counted.split_once('.').unwrap_or((counted, "")),
        None if COUNTED.contains(&name) => (name, ""),
        None if name.starts_with("services") => ("services", ""),
        None if name.ends_with("requests.storage") || name.ends_with("persistentvolumeclaims") => {
            ("persistentvolumeclaims", "")
        }
        None => ("pods", ""),
    };
    // What is not watched has no objects to wait for.
    caches.find(&kind(plural, group)).map_or(u64::MAX, |cache| cache.revision())
}

/// As far as a cache is found by it.
fn kind(plural: &str, group: &str) -> Kind {
    Kind {
        group: group.to_owned().into(),
        version: "".into(),
        kind: "".into(),
        plural: plural.to_owned().into(),
        namespaced: true,
    }
}

/// The number of objects behind `configmaps` or `count/jobs.batch`; nothing for what is no kind.
fn counted(caches: &Caches, name: &str, namespace: &str, quota: &Value) -> minik8s_meta::Quantity {
    let is_count = name.starts_with("count/") || COUNTED.contains(&name);
    // Scopes are about pods only.
    if !is_count || !quota::applies(quota, &json!({})) {
        return minik8s_meta::Quantity::default();
    }
    let counted = name.strip_prefix("count/").unwrap_or(name);
    let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
    let count = caches.find(&kind(plural, group)).map_or(0, |cache| cache.metadata_in(namespace).len());
    minik8s_meta::Quantity::from_milli(i64::try_from(count).unwrap_or(i64::MAX / 1000).saturating_mul(1000))
}

#[cfg(test)]
mod tests;
