//! From Node objects to [`Links`]. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Node;

use super::{Links, Mac, Route, Vxlan};

/// What VXLAN puts around a packet: Ethernet, IP, UDP and its own header.
const OVERHEAD: u32 = 50;
/// Linux's own choice, and flannel's.
const PORT: u16 = 8472;

/// How pods' packets travel between nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backend {
    /// Plain routes to nodes on this node's link, VXLAN to all others.
    #[default]
    Auto,
    Vxlan,
    /// Plain routes only.
    HostGw,
}

impl std::str::FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Backend::Auto),
            "vxlan" => Ok(Backend::Vxlan),
            "host-gw" => Ok(Backend::HostGw),
            _ => Err("use auto, vxlan or host-gw".to_owned()),
        }
    }
}

/// This node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Me {
    pub name: String,
    pub address: Ipv4Addr,
    pub uplink: Uplink,
    pub cluster: Ipv4Net,
    pub backend: Backend,
    /// The tunnel device's name.
    pub tunnel: String,
}

/// The interface that has the node's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uplink {
    pub device: String,
    pub network: Ipv4Net,
    pub mtu: u32,
}

/// A node as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub name: String,
    pub address: Ipv4Addr,
    pub pods: Ipv4Net,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub links: Links,
    /// Nodes that cannot be reached, and why.
    pub problems: BTreeMap<String, String>,
}

/// The nodes that have pods' addresses and are reachable at one of their own.
pub fn peers<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<Peer> {
    nodes.into_iter().filter_map(peer).collect()
}

fn peer(node: &Node) -> Option<Peer> {
    let spec = node.spec.as_ref()?;
    let ranges = spec.pod_cidr.iter().chain(spec.pod_cidrs.iter().flatten());
    let pods: Ipv4Net = ranges.filter_map(|text| text.parse().ok()).next()?;
    let addresses = node.status.as_ref()?.addresses.as_deref().unwrap_or_default();
    let internal = addresses.iter().filter(|address| address.type_ == "InternalIP");
    let address = internal.filter_map(|address| address.address.parse().ok()).next()?;
    Some(Peer { name: node.metadata.name.clone()?, address, pods: pods.trunc() })
}

/// The links of this node. Peers come in a fixed order: if two claim the same pods, the first has them.
pub fn plan(peers: &[Peer], me: &Me) -> Plan {
    let mut plan = Plan::default();
    let Some(own) = peers.iter().find(|peer| peer.name == me.name) else { return plan };
    let mut taken: BTreeSet<Ipv4Net> = [own.pods].into();
    for peer in peers.iter().filter(|peer| peer.name != me.name) {
        // A node must not be able to draw other traffic than its pods' to itself.
        let overlaps = |other: &Ipv4Net| other.contains(&peer.pods) || peer.pods.contains(other);
        let problem = if !me.cluster.contains(&peer.pods) {
            Some(format!("its pod range {} is not part of the cluster's {}", peer.pods, me.cluster))
        } else if taken.iter().any(overlaps) {
            Some(format!("its pod range {} is another node's, too", peer.pods))
        } else if peer.address == me.address {
            Some(format!("it claims this node's address {}", me.address))
        } else {
            reach(&mut plan.links, peer, own, me)
        };
        match problem {
            Some(problem) => drop(plan.problems.insert(peer.name.clone(), problem)),
            None => drop(taken.insert(peer.pods)),
        }
    }
    plan
}

/// Adds what leads to the peer's pods, or says why nothing does.
fn reach(links: &mut Links, peer: &Peer, own: &Peer, me: &Me) -> Option<String> {
    let on_link = me.uplink.network.contains(&peer.address);
    match me.backend {
        Backend::Auto | Backend::HostGw if on_link => {
            links.routes.insert(peer.pods, Route { via: peer.address, device: me.uplink.device.clone() });
        }
        Backend::HostGw => {
            return Some(format!(
                "its address {} is not on this node's link {} ({}): use --network-backend vxlan",
                peer.address, me.uplink.device, me.uplink.network
            ));
        }
        Backend::Auto | Backend::Vxlan => {
            let mac = Mac::of(peer.pods);
            links.vxlan.get_or_insert_with(|| tunnel(own, me));
            links.forwarding.insert(mac, peer.address);
            links.neighbours.insert(peer.pods.network(), mac);
            links.routes.insert(peer.pods, Route { via: peer.pods.network(), device: me.tunnel.clone() });
        }
    }
    None
}

fn tunnel(own: &Peer, me: &Me) -> Vxlan {
    let [a, b, c, _] = me.cluster.network().octets();
    Vxlan {
        // The same on all nodes, and another one in every cluster that a machine may be part of.
        id: u32::from_be_bytes([0, a, b, c]),
        port: PORT,
        local: me.address,
        mac: Mac::of(own.pods),
        mtu: me.uplink.mtu.saturating_sub(OVERHEAD),
        address: own.pods.network(),
    }
}

/// The largest packet of pods behind an uplink of that size. Unless there are routes only, it leaves room for
/// the tunnel: a node that needs it may join when the pods are long there.
pub fn pod_mtu(uplink: u32, backend: Backend) -> u32 {
    match backend {
        Backend::HostGw => uplink,
        Backend::Auto | Backend::Vxlan => uplink.saturating_sub(OVERHEAD),
    }
}
