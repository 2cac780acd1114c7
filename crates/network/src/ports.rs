//! Ports of this node that Services want and somebody else has.
//!
//! Rules come before listeners: what a Service takes, a program of the machine loses. The agent's own ports are never
//! given away, as the node could not be reached any more; of others the user is told.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;

use crate::proxy::{Frontend, Protocol, Routes};

/// `TCP_LISTEN` and, for UDP, a socket without a peer, as /proc/net numbers them.
const LISTENING: [(&str, Protocol, &str); 4] = [
    ("/proc/net/tcp", Protocol::Tcp, "0A"),
    ("/proc/net/tcp6", Protocol::Tcp, "0A"),
    ("/proc/net/udp", Protocol::Udp, "07"),
    ("/proc/net/udp6", Protocol::Udp, "07"),
];

/// ::1, as /proc/net writes it.
const LOOPBACK_V6: &str = "00000000000000000000000001000000";

pub type Port = (Protocol, u16);

/// Ports that programs of this machine listen on.
pub fn listened() -> BTreeSet<Port> {
    let all = LISTENING.into_iter().flat_map(|(path, protocol, state)| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        parse(&text, state).into_iter().map(move |port| (protocol, port))
    });
    all.collect()
}

/// Whether a program of this machine listens on a port that others reach; the protocol is `TCP` or `UDP`.
pub fn somebody_listens(protocol: &str, port: u16) -> bool {
    let protocol = match protocol {
        "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        _ => return false,
    };
    listened().contains(&(protocol, port))
}

/// Loopback is no node address: who listens only there loses nothing.
fn parse(text: &str, state: &str) -> BTreeSet<u16> {
    let listener = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (address, port) = fields.get(1)?.rsplit_once(':')?;
        let is_loopback = address.len() == 8 && address.ends_with("7F") || address == LOOPBACK_V6;
        let fits = fields.get(3) == Some(&state) && !is_loopback;
        u16::from_str_radix(port, 16).ok().filter(|_| fits)
    };
    text.lines().skip(1).filter_map(listener).collect()
}

/// Takes the node's own ports out of a Service's routes; returns those that it wanted.
pub fn keep_own(routes: &mut Routes, service: &Service, own: &BTreeSet<u16>) -> BTreeSet<Port> {
    let wanted: BTreeSet<Port> = node_ports(routes, service)
        .filter(|(protocol, port)| *protocol == Protocol::Tcp && own.contains(port))
        .collect();
    let inside = cluster_ips(service);
    routes.frontends.retain(|frontend, _| match frontend {
        Frontend::Address(address, protocol, port) => {
            inside.contains(&address.to_string()) || !wanted.contains(&(*protocol, *port))
        }
        Frontend::NodePort(protocol, port) => !wanted.contains(&(*protocol, *port)),
    });
    wanted
}

/// Ports of nodes that a Service takes: node ports, and those of its balancer.
pub fn node_ports<'a>(routes: &'a Routes, service: &Service) -> impl Iterator<Item = Port> + use<'a> {
    let inside = cluster_ips(service);
    let balanced: BTreeSet<String> = balancer_ips(service);
    routes.frontends.keys().filter_map(move |frontend| match frontend {
        Frontend::Address(address, protocol, port) => {
            let address = address.to_string();
            (balanced.contains(&address) && !inside.contains(&address)).then_some((*protocol, *port))
        }
        Frontend::NodePort(protocol, port) => Some((*protocol, *port)),
    })
}

fn cluster_ips(service: &Service) -> BTreeSet<String> {
    let spec = service.spec.as_ref();
    spec.into_iter()
        .flat_map(|spec| spec.cluster_ip.iter().chain(spec.cluster_ips.iter().flatten()))
        .cloned()
        .collect()
}

fn balancer_ips(service: &Service) -> BTreeSet<String> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default();
    ingress.iter().filter_map(|ingress| ingress.ip.clone()).collect()
}

#[cfg(test)]
mod tests {
    use minik8s_meta::IpFamily;
    use serde_json::json;

    use super::*;
    use crate::proxy::plan_service;

    #[test]
    fn who_listens() {
        let text = "  sl  local_address rem_address   st\n   \
                    0: 00000000:0050 00000000:0000 0A 00000000\n   \
                    1: 0100007F:1F90 00000000:0000 0A 00000000\n   \
                    2: 0B62A8C0:0016 0162A8C0:C350 01 00000000\n   \
                    3: 0B62A8C0:192B 00000000:0000 0A 00000000\n   \
                    4: 00000000000000000000000001000000:1F91 00000000:0000 0A 00000000\n";
        assert_eq!(parse(text, "0A"), [80, 0x192b].into());
    }

    #[test]
    fn own_ports_are_kept() {
        let service = |kind: &str, port: u16| -> Service {
            serde_json::from_value(json!({
                "metadata": {"namespace": "ns", "name": "s"},
                "spec": {"type": kind, "clusterIP": "10.96.0.7", "ports": [{"port": port, "nodePort": 30000}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
            }))
            .unwrap()
        };
        let check = |kind: &str, port: u16, own: u16, wanted: usize, left: usize| {
            let service = service(kind, port);
            let mut routes = plan_service(&service, std::iter::empty(), ("a", IpFamily::V4));
            let found = keep_own(&mut routes, &service, &[own].into());
            assert_eq!((found.len(), routes.frontends.len()), (wanted, left), "{kind} {port} {own}");
        };
        check("LoadBalancer", 80, 10250, 0, 3);
        // The address inside the cluster and the node port stay.
        check("LoadBalancer", 10250, 10250, 1, 2);
        check("LoadBalancer", 80, 30000, 1, 2);
    }
}
