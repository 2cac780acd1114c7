//! What is made for a Gateway: a Service for its address, a slice that leads it to the routers of all nodes, and the
//! configuration of those.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::core::v1::{Node, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use minik8s_meta::gateway::{GatewayConfig, GatewayConfigSpec, GatewayPort};
use minik8s_meta::routing::SERVICE_NAME;
use minik8s_runtime::{Action, Key, Plan, key_of, owner_reference};

use super::gateway::Observed;
use crate::kinds::Gateway;

/// By which people and tools find what belongs to a Gateway.
const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Below those of NodePorts and of connections that nodes make.
const ROUTER_PORTS: std::ops::Range<i32> = 25_000..30_000;

/// At which ports routers answer for a Gateway: they stay what they are.
pub struct RouterPorts<'a> {
    gateway: &'a Gateway,
    known: Vec<&'a GatewayPort>,
    taken: BTreeSet<i32>,
}

impl<'a> RouterPorts<'a> {
    pub fn new(gateway: &'a Gateway, config: Option<&'a GatewayConfig>, taken: &BTreeSet<i32>) -> Self {
        let known: Vec<&GatewayPort> = config.iter().flat_map(|config| &config.spec.ports).collect();
        let own = known.iter().map(|port| port.router_port);
        let taken = taken.iter().copied().chain(own).collect();
        RouterPorts { gateway, known, taken }
    }

    /// A new one begins its search at a place that clusters beside this one on the machine hardly share.
    pub fn of(&mut self, port: i32, udp: bool) -> i32 {
        let same = |known: &&&GatewayPort| known.port == port && (known.protocol == "UDP") == udp;
        if let Some(known) = self.known.iter().find(same) {
            return known.router_port;
        }
        let mut hasher = DefaultHasher::new();
        (self.gateway.metadata.uid.as_deref(), port, udp).hash(&mut hasher);
        let count = ROUTER_PORTS.end - ROUTER_PORTS.start;
        let first = i32::try_from(hasher.finish() % u64::from(count.unsigned_abs())).unwrap_or_default();
        let candidates = (0..count).map(|step| ROUTER_PORTS.start + (first + step) % count);
        let free = candidates.into_iter().find(|candidate| !self.taken.contains(candidate));
        // A cluster with five thousand of them has other troubles; two then share one, and one is not answered.
        let chosen = free.unwrap_or(ROUTER_PORTS.start);
        self.taken.insert(chosen);
        chosen
    }
}

/// Namespace and name of a Gateway's Service. Names of Services are shorter than those of Gateways may be.
pub fn service_key(gateway: &Gateway) -> Key {
    let key = key_of(gateway);
    let name = format!("{}-minik8s", key.name);
    if name.len() <= 63 && !name.contains('.') && name.starts_with(|first: char| first.is_ascii_alphabetic())
    {
        return Key::new(key.namespace, name);
    }
    let uid = gateway.metadata.uid.as_deref().unwrap_or_default();
    Key::new(key.namespace, format!("gateway-{uid}"))
}

/// Name and address of a ready node.
pub fn address(node: &Node) -> Option<(String, String)> {
    let status = node.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    let internal = status.addresses.iter().flatten().find(|address| address.type_ == "InternalIP")?;
    Some((node.metadata.name.clone()?, internal.address.clone()))
}

/// Whether an object was made for this Gateway.
pub fn is_of(meta: &ObjectMeta, gateway: &Gateway) -> bool {
    let owners = meta.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.any(|owner| Some(owner.uid.as_str()) == gateway.metadata.uid.as_deref())
}

pub fn plan(seen: &Observed, spec: &GatewayConfigSpec, plan: &mut Plan) {
    let gateway = &*seen.gateway;
    match &seen.config {
        Some(config) if config.spec == *spec => {}
        Some(config) => {
            plan.act(Action::update(&GatewayConfig { spec: spec.clone(), ..GatewayConfig::clone(config) }))
        }
        None => plan.act(Action::create(&GatewayConfig {
            metadata: metadata(gateway, &key_of(gateway)),
            spec: spec.clone(),
            ..GatewayConfig::default()
        })),
    }
    if spec.ports.is_empty() {
        return;
    }
    let (service, slice) = (service(seen, spec), slice(seen, spec));
    match &seen.service {
        // One of the same name that somebody else made is not touched: the status says that there is no address.
        Some(known) if !is_of(&known.metadata, gateway) => return,
        Some(known) if other_address(known, gateway) => {
            plan.act(Action::delete(&**known));
            return;
        }
        Some(known) => {
            let mut new = Service::clone(known);
            new.metadata.labels = service.metadata.labels;
            new.metadata.annotations = service.metadata.annotations;
            if let (Some(spec), Some(wanted)) = (&mut new.spec, service.spec) {
                keep_node_ports(&mut spec.ports, wanted.ports);
            }
            if new != **known {
                plan.act(Action::update(&new));
            }
        }
        None => plan.act(Action::create(&service)),
    }
    match &seen.slice {
        Some(known) if known.endpoints == slice.endpoints && known.ports == slice.ports => {}
        Some(known) => plan.act(Action::update(&EndpointSlice {
            endpoints: slice.endpoints,
            ports: slice.ports,
            ..EndpointSlice::clone(known)
        })),
        None => plan.act(Action::create(&slice)),
    }
}

/// Whether the Gateway wants an address that its Service has not.
fn other_address(service: &Service, gateway: &Gateway) -> bool {
    let wanted = wanted_address(gateway);
    let given = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    wanted.is_some_and(|wanted| Some(wanted) != given)
}

/// The one address that a Gateway wants, if it wants a certain one.
pub fn wanted_address(gateway: &Gateway) -> Option<&str> {
    let addresses = gateway.spec.addresses.iter().filter(|address| !address.value.is_empty());
    addresses.map(|address| address.value.as_str()).next()
}

/// The server has added to what was asked for.
fn keep_node_ports(known: &mut Option<Vec<ServicePort>>, wanted: Option<Vec<ServicePort>>) {
    let seen =
        |port: &ServicePort| (port.name.clone(), port.port, port.protocol.clone(), port.target_port.clone());
    let all = |ports: &Option<Vec<ServicePort>>| ports.iter().flatten().map(seen).collect::<Vec<_>>();
    if all(known) != all(&wanted) {
        *known = wanted;
    }
}

fn metadata(gateway: &Gateway, key: &Key) -> ObjectMeta {
    ObjectMeta {
        name: Some(key.name.clone()),
        namespace: Some(key.namespace.clone()),
        labels: Some(BTreeMap::from([(GATEWAY_NAME.to_owned(), label(gateway))])),
        owner_references: Some(vec![owner_reference(gateway)]),
        ..ObjectMeta::default()
    }
}

/// Labels are shorter than names may be.
fn label(gateway: &Gateway) -> String {
    let name = gateway.metadata.name.clone().unwrap_or_default();
    if name.len() <= 63 { name } else { gateway.metadata.uid.clone().unwrap_or_default() }
}

fn port_name(port: &GatewayPort) -> String {
    format!("{}-{}", if port.protocol == "UDP" { "udp" } else { "tcp" }, port.port)
}

fn transport(port: &GatewayPort) -> String {
    if port.protocol == "UDP" { "UDP".to_owned() } else { "TCP".to_owned() }
}

fn service(seen: &Observed, spec: &GatewayConfigSpec) -> Service {
    let gateway = &*seen.gateway;
    let mut metadata = metadata(gateway, &service_key(gateway));
    if let Some(wanted) = &gateway.spec.infrastructure {
        let labels = metadata.labels.get_or_insert_default();
        for (name, value) in &wanted.labels {
            labels.entry(name.clone()).or_insert_with(|| value.clone());
        }
        metadata.annotations = Some(wanted.annotations.clone()).filter(|all| !all.is_empty());
    }
    let ports = spec.ports.iter().map(|port| ServicePort {
        name: Some(port_name(port)),
        port: port.port,
        protocol: Some(transport(port)),
        target_port: Some(IntOrString::Int(port.router_port)),
        ..ServicePort::default()
    });
    Service {
        metadata,
        spec: Some(ServiceSpec {
            ports: Some(ports.collect()),
            cluster_ip: wanted_address(gateway).map(str::to_owned),
            // Every node answers for itself.
            internal_traffic_policy: Some("Local".to_owned()),
            ip_families: Some(vec!["IPv4".to_owned()]),
            ip_family_policy: Some("SingleStack".to_owned()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn slice(seen: &Observed, spec: &GatewayConfigSpec) -> EndpointSlice {
    let key = service_key(&seen.gateway);
    let mut metadata = metadata(&seen.gateway, &key);
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(SERVICE_NAME.to_owned(), key.name);
    labels.insert(MANAGED_BY.to_owned(), "gateway-controller.minik8s.io".to_owned());
    let endpoints = seen.nodes.iter().map(|(node, address)| Endpoint {
        addresses: vec![address.clone()],
        conditions: Some(EndpointConditions { ready: Some(true), ..EndpointConditions::default() }),
        node_name: Some(node.clone()),
        ..Endpoint::default()
    });
    let ports = spec.ports.iter().map(|port| EndpointPort {
        name: Some(port_name(port)),
        port: Some(port.router_port),
        protocol: Some(transport(port)),
        ..EndpointPort::default()
    });
    EndpointSlice {
        address_type: "IPv4".to_owned(),
        endpoints: Some(endpoints.collect()),
        ports: Some(ports.collect()),
        metadata,
    }
}
