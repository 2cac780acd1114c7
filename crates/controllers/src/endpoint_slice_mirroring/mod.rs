//! Endpoints that somebody wrote by hand, for a Service without a selector, as EndpointSlices: what reads slices (the
//! service proxy, the DNS) need not know the older kind.
//!
//! A slice for each list of ports and family of addresses. It never touches Endpoints, nor slices that it did not make.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches};

use crate::endpoints::{MANAGED_BY, SERVICE_NAME, has_selector, service_of};

const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// Whoever sets it looks after slices himself.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";

pub struct EndpointMirror;

pub struct Observed {
    /// `None` if there is nothing to mirror.
    endpoints: Option<Arc<Endpoints>>,
    slices: Vec<Arc<EndpointSlice>>,
}

impl Controller for EndpointMirror {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "endpoint-slice-mirroring-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Endpoints>();
        watches.own::<Service>();
        watches.on::<EndpointSlice>(|_, slice| {
            service_of(slice).filter(|_| is_ours(slice)).into_iter().collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let mut slices = caches.of::<EndpointSlice>().in_namespace(&key.namespace);
        slices.retain(|slice| service_of(slice).as_ref() == Some(key) && is_ours(slice));
        let by_hand = caches.of::<Service>().get(key).is_some_and(|service| !has_selector(&service));
        let endpoints =
            caches.of::<Endpoints>().get(key).filter(|endpoints| by_hand && is_mirrored(endpoints));
        (endpoints.is_some() || !slices.is_empty()).then_some(Observed { endpoints, slices })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        plan::plan(seen)
    }
}

fn is_mirrored(endpoints: &Endpoints) -> bool {
    let skips = endpoints.metadata.labels.as_ref().and_then(|labels| labels.get(SKIP));
    skips.is_none_or(|value| value != "true") && endpoints.metadata.deletion_timestamp.is_none()
}

fn is_ours(slice: &EndpointSlice) -> bool {
    slice.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|by| by == MANAGER)
}
