//! Services of type LoadBalancer: the nodes themselves are the balancer, at the Service's own ports.
//!
//! Writes the nodes' addresses into the status; the service proxy of each node does the rest. With
//! `externalTrafficPolicy: Local` only nodes that have a ready endpoint are named. A port of the nodes can lead
//! to one Service only: the oldest has it, the others are told by an event. A Service with a
//! `loadBalancerClass` is somebody else's.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};

const SERVICE_NAME: &str = "kubernetes.io/service-name";

pub struct LoadBalancers;

pub struct Observed {
    service: Arc<Service>,
    /// All that want ports of the nodes, this one among them if it does.
    balanced: Vec<Arc<Service>>,
    nodes: Vec<Arc<Node>>,
    slices: Vec<Arc<EndpointSlice>>,
}

impl Controller for LoadBalancers {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "service-lb-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Service>(move |old, new| {
            let Some(caches) = caches.upgrade() else { return Vec::new() };
            let own = new.map(key_of);
            // Who gives up a port, or takes one, is of interest to the others.
            let ports = |service: Option<&Service>| service.filter(|s| plan::is_balanced(s)).map(plan::ports);
            let others = if ports(old) == ports(new) { Vec::new() } else { balanced(&caches) };
            own.into_iter().chain(others.iter().map(|service| key_of(&**service))).collect()
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            let Some(caches) = caches.upgrade() else { return Vec::new() };
            if old.map(plan::relevant) == new.map(plan::relevant) {
                return Vec::new();
            }
            balanced(&caches).iter().map(|service| key_of(&**service)).collect()
        });
        watches.on::<EndpointSlice>(|_, slice| service_of(slice).into_iter().collect());
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let service = caches.of::<Service>().get(key)?;
        let mut slices = caches.of::<EndpointSlice>().in_namespace(&key.namespace);
        slices.retain(|slice| service_of(slice).as_ref() == Some(key));
        Some(Observed { service, balanced: balanced(caches), nodes: caches.of::<Node>().list(), slices })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        plan::plan(seen)
    }
}

fn balanced(caches: &Caches) -> Vec<Arc<Service>> {
    let mut services = caches.of::<Service>().list();
    services.retain(|service| plan::is_balanced(service));
    services
}

fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    Some(Key::new(slice.metadata.namespace.as_deref().unwrap_or(""), &**name))
}

#[cfg(test)]
mod tests;
