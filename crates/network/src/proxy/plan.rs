//! From Services and EndpointSlices to [`Routes`]. Pure.
//!
//! What cannot be understood (an address that is none, a port out of range) is passed over: the API server
//! refused it already, and one odd object must not take the others down.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use minik8s_meta::IpFamily;

use super::endpoints::Candidates;
use super::{Balance, Frontend, Pick, Place, Protocol, Route, Routes};

/// Three hours, as upstream: for Services that say nothing about it.
const STICKY_SECONDS: u32 = 10_800;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const BALANCE: &str = "minik8s.io/balance";
const ROUND_ROBIN: &str = "round-robin";

/// The routes of a family at that place. Services come in a fixed order: if two claim one address and port,
/// the first has it.
pub fn plan<'a>(
    services: impl IntoIterator<Item = &'a core::Service>,
    slices: impl IntoIterator<Item = &'a discovery::EndpointSlice>,
    (place, family): (impl Into<Place<'a>>, IpFamily),
) -> Routes {
    let place = place.into();
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
        let own = plan_service(service, slices.iter().copied(), (place, family));
        routes.own_endpoints.extend(own.own_endpoints);
        for (frontend, route) in own.frontends {
            routes.frontends.entry(frontend).or_insert(route);
        }
    }
    routes
}

/// The routes of one Service of a family with its slices.
pub fn plan_service<'a>(
    service: &core::Service,
    slices: impl Iterator<Item = &'a discovery::EndpointSlice> + Clone,
    (place, family): (impl Into<Place<'a>>, IpFamily),
) -> Routes {
    let (mut routes, place) = (Routes::default(), place.into());
    let Some(spec) = &service.spec else { return routes };
    let cluster_ips = addresses(spec, family);
    if cluster_ips.is_empty() || spec.type_.as_deref() == Some("ExternalName") {
        return routes;
    }
    let balancer_ips = balancer_addresses(service, family);
    let external_ips = of_family(spec.external_ips.iter().flatten(), family);
    let only_from = source_ranges(spec, family);
    let pick = pick(service, spec);
    let only_local_inside = spec.internal_traffic_policy.as_deref() == Some("Local");
    let only_local_outside = spec.external_traffic_policy.as_deref() == Some("Local");
    for port in spec.ports.iter().flatten() {
        let Some(protocol) = protocol(port.protocol.as_deref()) else { continue };
        let Some(number) = port_number(Some(port.port)) else { continue };
        let name = port.name.as_deref().unwrap_or_default();
        let candidates = Candidates::collect(slices.clone(), name, protocol, (place, family));
        routes.own_endpoints.extend(candidates.own_addresses());
        let balance = |only_local| Balance { pick, endpoints: candidates.usable(only_local) };
        for &address in &cluster_ips {
            let route = Route { inside: balance(only_local_inside), outside: None, only_from: None };
            add(&mut routes, Frontend::Address(address, protocol, number), route);
        }
        let outside = |only_from| {
            let outside = only_local_outside.then(|| balance(true));
            Route { inside: balance(false), outside, only_from }
        };
        for &address in &balancer_ips {
            add(&mut routes, Frontend::Address(address, protocol, number), outside(only_from.clone()));
        }
        for &address in &external_ips {
            add(&mut routes, Frontend::Address(address, protocol, number), outside(None));
        }
        if let Some(node_port) = port_number(port.node_port) {
            add(&mut routes, Frontend::NodePort(protocol, node_port), outside(None));
        }
    }
    routes
}

fn add(routes: &mut Routes, frontend: Frontend, route: Route) {
    routes.frontends.entry(frontend).or_insert(route);
}

/// Addresses inside the cluster. A headless Service has none.
fn addresses(spec: &core::ServiceSpec, family: IpFamily) -> Vec<IpAddr> {
    let all = spec.cluster_ip.iter().chain(spec.cluster_ips.iter().flatten());
    let mut found = of_family(all, family);
    found.sort_unstable();
    found.dedup();
    found
}

fn balancer_addresses(service: &core::Service, family: IpFamily) -> Vec<IpAddr> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default();
    // A balancer in the mode Proxy wants the traffic to pass through it even from inside.
    let ingress = ingress.iter().filter(|ingress| ingress.ip_mode.as_deref() != Some("Proxy"));
    of_family(ingress.filter_map(|ingress| ingress.ip.as_ref()), family)
}

fn of_family<'a>(texts: impl Iterator<Item = &'a String>, family: IpFamily) -> Vec<IpAddr> {
    texts.filter_map(|text| text.parse().ok()).filter(|address| IpFamily::of(*address) == family).collect()
}

/// `None`: from everywhere. Who names ranges of the other family alone lets nobody of this one in.
fn source_ranges(spec: &core::ServiceSpec, family: IpFamily) -> Option<Vec<IpNet>> {
    let texts = spec.load_balancer_source_ranges.as_ref().filter(|texts| !texts.is_empty())?;
    let ranges = texts.iter().filter_map(|text| text.trim().parse::<IpNet>().ok());
    let ranges: Vec<IpNet> = ranges.filter(|range| IpFamily::of(range.addr()) == family).collect();
    // Ranges within ranges say nothing, and the kernel would refuse them.
    Some(IpNet::aggregate(&ranges))
}

fn pick(service: &core::Service, spec: &core::ServiceSpec) -> Pick {
    let annotations = service.metadata.annotations.as_ref();
    if spec.session_affinity.as_deref() == Some("ClientIP") {
        let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
        let seconds = config.and_then(|client| u32::try_from(client.timeout_seconds?).ok());
        Pick::ByClient(seconds.filter(|&seconds| seconds > 0).unwrap_or(STICKY_SECONDS))
    } else if annotations.and_then(|map| map.get(BALANCE)).is_some_and(|value| value == ROUND_ROBIN) {
        Pick::RoundRobin
    } else {
        Pick::Random
    }
}

pub(super) fn protocol(text: Option<&str>) -> Option<Protocol> {
    match text {
        None | Some("TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some("SCTP") => Some(Protocol::Sctp),
        Some(_) => None,
    }
}

fn port_number(number: Option<i32>) -> Option<u16> {
    u16::try_from(number?).ok().filter(|&number| number != 0)
}
