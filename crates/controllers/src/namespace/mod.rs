//! Deletion of namespaces: everything inside goes first, and conditions say what still holds it.

mod conditions;
mod plan;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Catalog, Controller, Key, Kind, Plan, Watches, is_event};

pub struct Namespaces {
    catalog: Arc<Catalog>,
}

impl Namespaces {
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Namespaces { catalog }
    }
}

pub struct Observed {
    namespace: Arc<Namespace>,
    /// What is left inside, by kind. Events are not looked at one by one.
    contents: Vec<(Kind, Vec<ObjectMeta>)>,
    /// All kinds that live in namespaces.
    kinds: Vec<Kind>,
}

impl Controller for Namespaces {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "namespace-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Namespace>();
        let caches = Arc::downgrade(watches.caches());
        let sink = watches.sink();
        self.catalog.follow(Box::new(move |kind| {
            let Some(strong) = caches.upgrade() else { return };
            if !kind.namespaced || is_event(kind) {
                return;
            }
            let (caches, sink) = (caches.clone(), sink.clone());
            strong.of_kind(kind).listen_metadata(Box::new(move |_, (old, new)| {
                let Some(caches) = caches.upgrade() else { return };
                let Some(name) = new.or(old).and_then(|meta| meta.namespace.as_deref()) else { return };
                let key = Key::new("", name);
                let namespace = caches.of::<Namespace>().get(&key);
                if namespace.is_some_and(|n| n.metadata.deletion_timestamp.is_some()) {
                    sink(key);
                }
            }));
        }));
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let namespace = caches.of::<Namespace>().get(key)?;
        namespace.metadata.deletion_timestamp.as_ref()?;
        let kinds: Vec<Kind> = self.catalog.kinds().into_iter().filter(|kind| kind.namespaced).collect();
        let looked_at = kinds.iter().filter(|kind| !is_event(kind));
        let contents = looked_at.map(|kind| (kind.clone(), caches.of_kind(kind).metadata_in(&key.name)));
        let contents = contents.filter(|(_, objects)| !objects.is_empty()).collect();
        Some(Observed { namespace, contents, kinds })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

#[cfg(test)]
mod tests;
