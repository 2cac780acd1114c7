//! From Endpoints to slices. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_meta::IpFamily;
use minik8s_runtime::{Action, Plan, owner_reference};

use super::{MANAGED_BY, MANAGER, Observed, SERVICE_NAME};

/// Of one slice; more are left out.
const MOST_ENDPOINTS: usize = 1000;
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Slices differ in their addresses' family and their ports, here as text so that they can be ordered.
type Place = (IpFamily, String);

pub(super) fn plan(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    let mut wanted: BTreeMap<Place, EndpointSlice> =
        seen.endpoints.iter().flat_map(|endpoints| slices(endpoints)).collect();
    for slice in &seen.slices {
        if slice.metadata.deletion_timestamp.is_some() {
            continue;
        }
        match wanted.remove(&place(slice)) {
            None => plan.act(Action::delete(&**slice)),
            Some(new) => {
                let mut updated = EndpointSlice::clone(slice);
                updated.endpoints = new.endpoints;
                updated.metadata.labels = new.metadata.labels;
                updated.metadata.annotations = new.metadata.annotations;
                if updated != **slice {
                    plan.act(Action::update(&updated));
                }
            }
        }
    }
    wanted.values().for_each(|slice| plan.act(Action::create(slice)));
    plan
}

fn slices(endpoints: &Endpoints) -> BTreeMap<Place, EndpointSlice> {
    let mut slices: BTreeMap<Place, EndpointSlice> = BTreeMap::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ports = ports(subset);
        for (address, is_ready) in addresses(subset) {
            let Ok(ip) = address.ip.parse::<IpAddr>() else { continue };
            let family = IpFamily::of(ip);
            let slice = slices
                .entry((family, shown(&ports)))
                .or_insert_with(|| empty_slice(endpoints, family, ports.clone()));
            let list = slice.endpoints.get_or_insert_default();
            if list.len() < MOST_ENDPOINTS {
                list.push(endpoint(address, is_ready));
            }
        }
    }
    slices
}

fn addresses(subset: &EndpointSubset) -> impl Iterator<Item = (&EndpointAddress, bool)> {
    let ready = subset.addresses.iter().flatten().map(|address| (address, true));
    ready.chain(subset.not_ready_addresses.iter().flatten().map(|address| (address, false)))
}

fn ports(subset: &EndpointSubset) -> Vec<EndpointPort> {
    let ports = subset.ports.iter().flatten().map(|port| EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    });
    ports.collect()
}

fn endpoint(address: &EndpointAddress, is_ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready: Some(is_ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn empty_slice(endpoints: &Endpoints, family: IpFamily, ports: Vec<EndpointPort>) -> EndpointSlice {
    let meta = &endpoints.metadata;
    let name = meta.name.clone().unwrap_or_default();
    let mut labels = meta.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels.insert(SERVICE_NAME.to_owned(), name.clone());
    let mut annotations = meta.annotations.clone().unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    EndpointSlice {
        address_type: family.name().to_owned(),
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: meta.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            owner_references: Some(vec![owner_reference(endpoints)]),
            ..ObjectMeta::default()
        },
        endpoints: None,
        ports: Some(ports),
    }
}

fn place(slice: &EndpointSlice) -> Place {
    let family = IpFamily::from_name(&slice.address_type).unwrap_or(IpFamily::V4);
    (family, shown(slice.ports.as_deref().unwrap_or_default()))
}

fn shown(ports: &[EndpointPort]) -> String {
    let one = |port: &EndpointPort| {
        format!("{:?} {:?} {:?} {:?}", port.name, port.protocol, port.port, port.app_protocol)
    };
    ports.iter().map(one).collect::<Vec<_>>().join(",")
}
