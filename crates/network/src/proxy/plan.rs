//! From Services and EndpointSlices to [`Routes`]. Pure.
//!
//! What cannot be understood (an address that is none, a port out of range) is passed over: the API server
//! refused it already, and one odd object must not take the others down.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;

use super::endpoints::Candidates;
use super::{Balance, Frontend, Pick, Protocol, Route, Routes};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const BALANCE: &str = "minik8s.io/balance";
const ROUND_ROBIN: &str = "round-robin";

/// The routes of the node with that name. Services come in a fixed order: if two claim one address and port,
/// the first has it.
pub fn plan<'a>(
    services: impl IntoIterator<Item = &'a core::Service>,
    slices: impl IntoIterator<Item = &'a discovery::EndpointSlice>,
    node: &str,
) -> Routes {
    let mut slices_of: BTreeMap<(&str, &str), Vec<&discovery::EndpointSlice>> = BTreeMap::new();
    for slice in slices {
        let labels = slice.metadata.labels.as_ref();
        let Some(service) = labels.and_then(|labels| labels.get(SERVICE_NAME)) else { continue };
        let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
        slices_of.entry((namespace, service)).or_default().push(slice);
    }
    let mut routes = Routes::default();
    for service in services {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let slices = slices_of.get(&(namespace, name)).map(Vec::as_slice).unwrap_or_default();
        add_service(&mut routes, service, slices, node);
    }
    routes
}

fn add_service(
    routes: &mut Routes,
    service: &core::Service,
    slices: &[&discovery::EndpointSlice],
    node: &str,
) {
    let Some(spec) = &service.spec else { return };
    let cluster_ips = addresses(spec);
    if cluster_ips.is_empty() || spec.type_.as_deref() == Some("ExternalName") {
        return;
    }
    let outside_ips = outside_addresses(service, spec);
    let pick = pick(service, spec);
    let only_local_inside = spec.internal_traffic_policy.as_deref() == Some("Local");
    let only_local_outside = spec.external_traffic_policy.as_deref() == Some("Local");
    for port in spec.ports.iter().flatten() {
        let Some(protocol) = protocol(port.protocol.as_deref()) else { continue };
        let Some(number) = port_number(Some(port.port)) else { continue };
        let name = port.name.as_deref().unwrap_or_default();
        let candidates = Candidates::collect(slices.iter().copied(), name, protocol, node);
        routes.own_endpoints.extend(candidates.own_addresses());
        let balance = |only_local| Balance { pick, endpoints: candidates.usable(only_local) };
        for &address in &cluster_ips {
            let route = Route { inside: balance(only_local_inside), outside: None };
            add(routes, Frontend::Address(address, protocol, number), route);
        }
        let outside = || Route { inside: balance(false), outside: only_local_outside.then(|| balance(true)) };
        for &address in &outside_ips {
            add(routes, Frontend::Address(address, protocol, number), outside());
        }
        if let Some(node_port) = port_number(port.node_port) {
            add(routes, Frontend::NodePort(protocol, node_port), outside());
        }
    }
}

fn add(routes: &mut Routes, frontend: Frontend, route: Route) {
    routes.frontends.entry(frontend).or_insert(route);
}

/// Addresses inside the cluster. A headless Service has none.
fn addresses(spec: &core::ServiceSpec) -> Vec<Ipv4Addr> {
    let first = spec.cluster_ip.iter();
    let mut found: Vec<_> =
        first.chain(spec.cluster_ips.iter().flatten()).filter_map(|text| text.parse().ok()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn outside_addresses(service: &core::Service, spec: &core::ServiceSpec) -> Vec<Ipv4Addr> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default();
    // A balancer in the mode Proxy wants the traffic to pass through it even from inside.
    let ingress = ingress.iter().filter(|ingress| ingress.ip_mode.as_deref() != Some("Proxy"));
    let texts = ingress.filter_map(|ingress| ingress.ip.as_ref()).chain(spec.external_ips.iter().flatten());
    texts.filter_map(|text| text.parse().ok()).collect()
}

fn pick(service: &core::Service, spec: &core::ServiceSpec) -> Pick {
    let annotations = service.metadata.annotations.as_ref();
    if spec.session_affinity.as_deref() == Some("ClientIP") {
        Pick::ByClient
    } else if annotations.and_then(|map| map.get(BALANCE)).is_some_and(|value| value == ROUND_ROBIN) {
        Pick::RoundRobin
    } else {
        Pick::Random
    }
}

/// SCTP is not proxied.
pub(super) fn protocol(text: Option<&str>) -> Option<Protocol> {
    match text {
        None | Some("TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        _ => None,
    }
}

fn port_number(number: Option<i32>) -> Option<u16> {
    u16::try_from(number?).ok().filter(|&number| number != 0)
}
