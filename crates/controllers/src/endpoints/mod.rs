//! Where a Service's traffic goes: EndpointSlices, and the older Endpoints, from the pods it selects.
//!
//! Both are made from one list of [`Backend`]s. Slices are filled to a hundred endpoints each, and an
//! endpoint stays in the slice it is in, so that one changed pod rewrites one slice.

mod backend;
mod hints;
mod legacy;
mod plan;
mod slices;

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Selector, Watches, key_of};

pub(crate) use self::backend::families;
use crate::pods;

/// Who made a slice.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Which Service a slice is of.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
const HEADLESS: &str = "service.kubernetes.io/headless";

pub struct ServiceEndpoints;

pub struct Observed {
    service: Arc<Service>,
    pods: Vec<Arc<Pod>>,
    /// Zone of each node that has pods of the Service.
    zones: HashMap<String, String>,
    slices: Vec<Arc<EndpointSlice>>,
    endpoints: Option<Arc<Endpoints>>,
}

impl Controller for ServiceEndpoints {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "endpoint-slice-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Service>();
        watches.own::<Endpoints>();
        watches.on::<EndpointSlice>(|_, slice| service_of(slice).into_iter().collect());
        let caches = Arc::downgrade(watches.caches());
        watches.needs::<Node>();
        watches.on_change::<Pod>(move |old, new| {
            let Some(caches) = caches.upgrade() else { return Vec::new() };
            // Most changes of pods do not matter to Services.
            if old.map(backend::relevant) == new.map(backend::relevant) {
                return Vec::new();
            }
            old.into_iter().chain(new).flat_map(|pod| services_for(&caches, pod)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let service = caches.of::<Service>().get(key)?;
        let selector = selector(&service)?;
        let mut pods = caches.of::<Pod>().in_namespace(&key.namespace);
        pods.retain(|pod| selector.matches_object(&pod.metadata));
        let nodes = caches.of::<Node>();
        let zone = |node: &str| {
            let node = nodes.get(&Key::new("", node))?;
            node.metadata.labels.as_ref()?.get("topology.kubernetes.io/zone").cloned()
        };
        let names = pods.iter().filter_map(|pod| pods::node_name(pod));
        let zones = names.filter_map(|name| Some((name.to_owned(), zone(name)?))).collect();
        let mut slices = caches.of::<EndpointSlice>().in_namespace(&key.namespace);
        slices.retain(|slice| service_of(slice).as_ref() == Some(key) && is_ours(slice));
        Some(Observed { zones, pods, slices, endpoints: caches.of::<Endpoints>().get(key), service })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

/// None if somebody else looks after the endpoints.
fn selector(service: &Service) -> Option<Selector> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    let selector = spec.selector.as_ref().filter(|selector| !selector.is_empty())?;
    Some(Selector::equal(Some(selector)))
}

/// Whether pods are looked for: else somebody writes the endpoints by hand.
pub(crate) fn has_selector(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.selector.as_ref()).is_some_and(|selector| !selector.is_empty())
}

fn services_for(caches: &Caches, pod: &Pod) -> Vec<Key> {
    let services = caches.of::<Service>().in_namespace(pod.metadata.namespace.as_deref().unwrap_or(""));
    let matching =
        services.iter().filter(|service| selector(service).is_some_and(|s| s.matches_object(&pod.metadata)));
    matching.map(|service| key_of(&**service)).collect()
}

pub(crate) fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    Some(Key::new(slice.metadata.namespace.as_deref().unwrap_or(""), &**name))
}

fn is_ours(slice: &EndpointSlice) -> bool {
    slice.metadata.labels.as_ref().and_then(|l| l.get(MANAGED_BY)).is_some_and(|m| m == MANAGER)
}

#[cfg(test)]
mod tests;
