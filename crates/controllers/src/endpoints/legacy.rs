//! The older Endpoints, of the same name as the Service.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_runtime::{Action, Plan, owner_reference};

use super::backend::{Backend, Port};
use super::{HEADLESS, MANAGED_BY, Observed};

/// Larger ones are cut, and say so.
const MOST_ADDRESSES: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const MANAGER: &str = "endpoint-controller";

pub(super) fn reconcile(seen: &Observed, backends: &[Backend], plan: &mut Plan) {
    let wanted = endpoints(&seen.service, backends);
    let Some(have) = &seen.endpoints else {
        plan.act(Action::create(&wanted));
        return;
    };
    let subsets = |endpoints: &Endpoints| endpoints.subsets.clone().unwrap_or_default();
    let capacity = |endpoints: &Endpoints| {
        endpoints.metadata.annotations.as_ref().and_then(|a| a.get(OVER_CAPACITY)).cloned()
    };
    let same = subsets(have) == subsets(&wanted)
        && have.metadata.labels == wanted.metadata.labels
        && capacity(have) == capacity(&wanted);
    if same || have.metadata.deletion_timestamp.is_some() {
        return;
    }
    let mut updated = (**have).clone();
    updated.subsets = wanted.subsets;
    updated.metadata.labels = wanted.metadata.labels;
    let annotations = updated.metadata.annotations.get_or_insert_default();
    annotations.remove(OVER_CAPACITY);
    annotations.extend(wanted.metadata.annotations.unwrap_or_default());
    plan.act(Action::update(&updated));
}

/// No address of its own: clients see the pods.
pub(super) fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

fn endpoints(service: &Service, backends: &[Backend]) -> Endpoints {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    // Terminating pods are in slices only.
    let live: Vec<&Backend> = backends.iter().filter(|b| !b.is_terminating || b.is_ready).collect();
    let over = live.len() > MOST_ADDRESSES;
    let annotations = over.then(|| [(OVER_CAPACITY.to_owned(), "truncated".to_owned())].into());
    Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            annotations,
            // They go with the Service.
            owner_references: Some(vec![owner_reference(service)]),
            ..ObjectMeta::default()
        },
        subsets: Some(subsets(&live[..live.len().min(MOST_ADDRESSES)])).filter(|s| !s.is_empty()),
    }
}

/// Addresses with the same ports are a subset, sorted as upstream sorts them.
fn subsets(backends: &[&Backend]) -> Vec<EndpointSubset> {
    let mut groups: BTreeMap<Vec<Port>, EndpointSubset> = BTreeMap::new();
    for backend in backends {
        let mut ports = backend.ports.clone();
        ports.sort();
        let subset = groups.entry(ports.clone()).or_insert_with(|| EndpointSubset {
            ports: Some(ports.iter().map(port_of).collect()).filter(|p: &Vec<_>| !p.is_empty()),
            ..EndpointSubset::default()
        });
        let list = if backend.is_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        list.get_or_insert_default().extend(backend.addresses.iter().map(|ip| EndpointAddress {
            ip: ip.clone(),
            hostname: backend.hostname.clone(),
            node_name: backend.node.clone(),
            target_ref: Some(backend.pod.clone()),
        }));
    }
    let mut subsets: Vec<EndpointSubset> = groups.into_values().collect();
    for subset in &mut subsets {
        for list in [&mut subset.addresses, &mut subset.not_ready_addresses].into_iter().flatten() {
            list.sort_by(|a, b| a.ip.cmp(&b.ip));
        }
    }
    subsets
}

fn port_of(port: &Port) -> EndpointPort {
    EndpointPort {
        name: port.name.clone(),
        port: port.number.unwrap_or(0),
        protocol: Some(port.protocol.clone()),
        app_protocol: port.app_protocol.clone(),
    }
}
