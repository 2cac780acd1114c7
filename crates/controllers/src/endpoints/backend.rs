//! One pod as a Service's backend.

use std::collections::HashMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use minik8s_meta::{IpFamily, format};

use crate::pods;

/// A pod that a Service may send traffic to, with the ports it has for the Service's.
#[derive(Debug, Clone, PartialEq)]
pub struct Backend {
    pub addresses: Vec<String>,
    pub is_ready: bool,
    pub is_serving: bool,
    pub is_terminating: bool,
    pub hostname: Option<String>,
    pub node: Option<String>,
    pub zone: Option<String>,
    pub pod: ObjectReference,
    pub ports: Vec<Port>,
}

/// A port of a backend. Pods may differ in it when the Service names it by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port {
    pub name: Option<String>,
    pub protocol: String,
    pub number: Option<i32>,
    pub app_protocol: Option<String>,
}

/// What a Service looks at in a pod.
pub fn relevant(pod: &Pod) -> impl PartialEq + use<> {
    let status = pod.status.as_ref();
    let spec = pod.spec.as_ref();
    (
        pod.metadata.uid.clone(),
        pod.metadata.labels.clone(),
        pod.metadata.deletion_timestamp.is_some(),
        (pods::is_ready(pod), pods::is_finished(pod)),
        status.and_then(|s| s.pod_ips.clone()),
        status.and_then(|s| s.pod_ip.clone()),
        spec.map(|s| (s.hostname.clone(), s.subdomain.clone(), s.node_name.clone())),
    )
}

impl Backend {
    /// None if nothing can be sent to the pod.
    pub fn of(
        service: &Service,
        pod: &Pod,
        zones: &HashMap<String, String>,
        family: IpFamily,
    ) -> Option<Self> {
        let spec = service.spec.as_ref()?;
        if pods::is_finished(pod) {
            return None;
        }
        let addresses: Vec<String> =
            addresses(pod).into_iter().filter(|ip| is_of(family, ip)).take(1).collect();
        if addresses.is_empty() {
            return None;
        }
        let serving = pods::is_ready(pod) || spec.publish_not_ready_addresses == Some(true);
        let terminating = pods::is_terminating(pod);
        let publishes_unready = spec.publish_not_ready_addresses == Some(true);
        let node = pods::node_name(pod).map(str::to_owned);
        let pod_spec = pod.spec.as_ref()?;
        // A pod is known by its own name if the Service is its domain.
        let in_domain = pod_spec.subdomain.as_deref() == service.metadata.name.as_deref();
        Some(Backend {
            addresses,
            is_ready: serving && (!terminating || publishes_unready),
            is_serving: serving,
            is_terminating: terminating,
            hostname: pod_spec.hostname.clone().filter(|name| !name.is_empty() && in_domain),
            zone: node.as_ref().and_then(|node| zones.get(node).cloned()),
            node,
            pod: ObjectReference {
                kind: Some("Pod".to_owned()),
                namespace: pod.metadata.namespace.clone(),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
                ..ObjectReference::default()
            },
            ports: spec.ports.iter().flatten().filter_map(|port| port_of(port, pod)).collect(),
        })
    }
}

/// The families that a Service is for, the primary one first. One of long ago may not name them: its address does.
pub fn families(service: &Service) -> Vec<IpFamily> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let named: Vec<IpFamily> =
        spec.ip_families.iter().flatten().filter_map(|name| IpFamily::from_name(name)).collect();
    if !named.is_empty() {
        return named;
    }
    let address = spec.cluster_ip.as_ref().and_then(|ip| ip.parse().ok());
    vec![address.map_or(IpFamily::V4, IpFamily::of)]
}

fn is_of(family: IpFamily, address: &str) -> bool {
    address.parse().is_ok_and(|address: IpAddr| IpFamily::of(address) == family)
}

fn addresses(pod: &Pod) -> Vec<String> {
    let Some(status) = &pod.status else { return Vec::new() };
    let mut all: Vec<String> = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect();
    if let Some(ip) = status.pod_ip.as_ref().filter(|ip| !ip.is_empty() && !all.contains(ip)) {
        all.insert(0, ip.clone());
    }
    // No slice may hold others: one pod whose node names such an address would keep a Service as it is.
    all.retain(|ip| format::endpoint_ip(ip).is_empty());
    all
}

fn port_of(port: &ServicePort, pod: &Pod) -> Option<Port> {
    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let number = match &port.target_port {
        None => port.port,
        Some(IntOrString::Int(0)) => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => named_port(pod, name, &protocol)?,
    };
    Some(Port {
        name: port.name.clone().filter(|name| !name.is_empty()),
        protocol,
        number: Some(number),
        app_protocol: port.app_protocol.clone(),
    })
}

fn named_port(pod: &Pod, name: &str, protocol: &str) -> Option<i32> {
    let spec = pod.spec.as_ref()?;
    let sidecars =
        spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|c| c.ports.iter().flatten());
    let mut fitting = ports.filter(|port| {
        port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == protocol
    });
    fitting.next().map(|port| port.container_port)
}
