//! Which addresses a Service has. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, Service};
use minik8s_meta::IpFamily;
use minik8s_runtime::{Action, EventRecord, Plan, Target, key_of};
use serde_json::{Value, json};

use super::Observed;
use crate::endpoints::families;

const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

pub(super) fn plan(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    let service = &*seen.service;
    let has_class = service.spec.as_ref().is_some_and(|spec| spec.load_balancer_class.is_some());
    if has_class || service.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let mut addresses = Vec::new();
    if is_balanced(service) {
        match taken(seen) {
            Some((protocol, port, owner)) => plan.event(EventRecord::warning(
                service,
                "PortTaken",
                format!(
                    "port {port}/{protocol} of the nodes leads to Service {owner} already: use another port"
                ),
            )),
            None => addresses = node_addresses(seen),
        }
    }
    let wanted: Vec<Value> =
        addresses.iter().map(|ip| json!({"ip": ip.to_string(), "ipMode": "VIP"})).collect();
    if current(service) != wanted {
        let ingress = if wanted.is_empty() { Value::Null } else { Value::Array(wanted) };
        let patch = json!({"status": {"loadBalancer": {"ingress": ingress}}});
        plan.act(Action::Patch { target: Target::of(service), subresource: Some("status"), patch });
    }
    plan
}

pub(super) fn is_balanced(service: &Service) -> bool {
    let balanced = |spec: &k8s_openapi::api::core::v1::ServiceSpec| {
        spec.type_.as_deref() == Some("LoadBalancer") && spec.load_balancer_class.is_none()
    };
    service.spec.as_ref().is_some_and(balanced) && service.metadata.deletion_timestamp.is_none()
}

pub(super) fn ports(service: &Service) -> BTreeSet<(String, i32)> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.map(|port| (port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), port.port)).collect()
}

/// What matters of a node: heartbeats do not.
pub(super) fn relevant(node: &Node) -> impl PartialEq + use<> {
    (is_excluded(node), is_ready(node), addresses(node), node.metadata.name.clone())
}

/// The first port that an older Service has, and who that is.
fn taken(seen: &Observed) -> Option<(String, i32, String)> {
    let age = |service: &Service| (service.metadata.creation_timestamp.clone(), key_of(service));
    let own = age(&seen.service);
    let mut older: Vec<&Service> =
        seen.balanced.iter().map(|service| &**service).filter(|service| age(service) < own).collect();
    older.sort_by_key(|service| age(service));
    ports(&seen.service).into_iter().find_map(|port| {
        let owner = key_of(*older.iter().find(|service| ports(service).contains(&port))?);
        Some((port.0, port.1, format!("{}/{}", owner.namespace, owner.name)))
    })
}

/// Ready nodes if there are any; those with endpoints of their own if only they may answer. Of each node one address of
/// each of the Service's families, its primary one first.
fn node_addresses(seen: &Observed) -> Vec<IpAddr> {
    let nodes: Vec<&Node> = seen.nodes.iter().map(|node| &**node).filter(|node| !is_excluded(node)).collect();
    let nodes = prefer(nodes, is_ready);
    let policy = seen.service.spec.as_ref().and_then(|spec| spec.external_traffic_policy.as_deref());
    let nodes = match policy {
        Some("Local") => {
            let endpoints = seen.slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
            let ready = endpoints.filter(|endpoint| {
                endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false)
            });
            let with_endpoints: BTreeSet<_> = ready.map(|endpoint| endpoint.node_name.clone()).collect();
            prefer(nodes, |node| with_endpoints.contains(&node.metadata.name))
        }
        _ => nodes,
    };
    let of_family = |family: IpFamily| -> BTreeSet<IpAddr> {
        let first =
            |node: &Node| addresses(node).into_iter().find(|address| IpFamily::of(*address) == family);
        nodes.iter().filter_map(|node| first(node)).collect()
    };
    families(&seen.service).into_iter().flat_map(of_family).collect()
}

/// Those that fit, or all of them if none does: an address that may work later is better than none.
fn prefer(nodes: Vec<&Node>, fits: impl Fn(&Node) -> bool) -> Vec<&Node> {
    let fitting: Vec<&Node> = nodes.iter().copied().filter(|node| fits(node)).collect();
    if fitting.is_empty() { nodes } else { fitting }
}

fn is_excluded(node: &Node) -> bool {
    node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(EXCLUDED))
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|condition| condition.type_ == "Ready").any(|condition| condition.status == "True")
}

fn addresses(node: &Node) -> Vec<IpAddr> {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let internal = addresses.filter(|address| address.type_ == "InternalIP");
    internal.filter_map(|address| address.address.parse().ok()).collect()
}

fn current(service: &Service) -> Vec<Value> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default();
    ingress.iter().map(|ingress| json!(ingress)).collect()
}
