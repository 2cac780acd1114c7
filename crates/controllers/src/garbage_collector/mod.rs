//! The garbage collector: what is left when its owners are gone goes too.
//!
//! A graph of all objects and their owners is kept from the metadata of every kind. Per object, `plan`
//! decides: drop references to owners that are gone while others remain; delete it when the last is gone;
//! in foreground deletion, delete the dependents first and let the owner go after those that block it; in
//! orphan deletion, cut the dependents loose. Before anything is deleted because an owner is missing, the
//! API itself is asked, for the graph may lag behind. It never follows references across namespaces.

mod graph;
mod plan;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Catalog, Controller, Key, Kind, Plan, Watches, is_event};
use parking_lot::RwLock;

use graph::{Graph, Item};

pub struct GarbageCollector {
    catalog: Arc<Catalog>,
    graph: Arc<RwLock<Graph>>,
}

impl GarbageCollector {
    pub fn new(catalog: Arc<Catalog>) -> Self {
        GarbageCollector { catalog, graph: Arc::default() }
    }
}

/// An object, its owners and its dependents.
pub struct Observed {
    item: Item,
    owners: Vec<(OwnerReference, OwnerState)>,
    dependents: Vec<Item>,
}

/// What is known of an owner.
enum OwnerState {
    Solid,
    /// It is being deleted in the foreground: its dependents are to go first.
    WaitsForDependents,
    /// Not in the graph; the API must confirm it.
    Missing(Kind, Key),
    /// Of a kind that is not served: nothing can be said about it.
    Unknown,
}

impl Controller for GarbageCollector {
    type Key = String;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "garbage-collector-controller"
    }

    fn watch(&self, watches: &Watches<String>) {
        let caches = Arc::downgrade(watches.caches());
        let (graph, sink) = (self.graph.clone(), watches.sink());
        self.catalog.follow(Box::new(move |kind| {
            let Some(caches) = caches.upgrade() else { return };
            if is_event(kind) {
                return;
            }
            let (graph, sink) = (graph.clone(), sink.clone());
            caches.of_kind(kind).listen_metadata(Box::new(move |kind, (old, new)| {
                let woken = graph.write().change(kind, old, new);
                woken.into_iter().for_each(|uid| sink(uid));
            }));
        }));
    }

    fn observe(&self, _: &Caches, uid: &String) -> Option<Observed> {
        let graph = self.graph.read();
        let item = graph.get(uid)?.clone();
        let owners =
            item.owners.iter().map(|reference| (reference.clone(), self.look_up(&graph, &item, reference)));
        Some(Observed { owners: owners.collect(), dependents: graph.dependents(uid), item })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        plan::plan(seen)
    }

    fn workers(&self) -> usize {
        32
    }
}

impl GarbageCollector {
    fn look_up(&self, graph: &Graph, item: &Item, reference: &OwnerReference) -> OwnerState {
        let Some((kind, key)) = self.catalog.owner(reference, &item.key.namespace) else {
            return OwnerState::Unknown;
        };
        match graph.get(&reference.uid) {
            Some(owner) if owner.kind == kind && owner.key == key => {
                if owner.waits_for_dependents() {
                    OwnerState::WaitsForDependents
                } else {
                    OwnerState::Solid
                }
            }
            _ => OwnerState::Missing(kind, key),
        }
    }
}

#[cfg(test)]
mod tests;
