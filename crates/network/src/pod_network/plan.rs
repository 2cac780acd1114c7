//! From Node objects to [`Links`]. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use minik8s_meta::{Cidrs, IpFamily};

use super::links::digest;
use super::{Links, Mac, Route, Vxlan};

/// What VXLAN puts around a packet: Ethernet, IP, UDP and its own header.
const OVERHEAD: u32 = 50;
/// IPv6's header is that much longer.
const OVERHEAD_V6: u32 = OVERHEAD + 20;
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
    /// One of each family that it has an address of.
    pub uplinks: Vec<Uplink>,
    pub cluster: Cidrs,
    pub backend: Backend,
    /// The tunnel device's name.
    pub tunnel: String,
}

/// An interface that has an address of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uplink {
    pub device: String,
    pub address: IpAddr,
    pub network: IpNet,
    pub mtu: u32,
}

/// A node as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub name: String,
    /// At most one of each family, in the node's own order.
    pub addresses: Vec<IpAddr>,
    /// Ranges of its pods, at most one of each family.
    pub pods: Vec<IpNet>,
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
    let pods = one_of_each(ranges.filter_map(|text| text.parse::<IpNet>().ok()), |range| range.addr());
    let addresses = node.status.as_ref()?.addresses.as_deref().unwrap_or_default();
    let internal = addresses.iter().filter(|address| address.type_ == "InternalIP");
    let internal = internal.filter_map(|address| address.address.parse().ok());
    let peer = Peer {
        name: node.metadata.name.clone()?,
        addresses: one_of_each(internal, |address| *address),
        pods: pods.into_iter().map(|range| range.trunc()).collect(),
    };
    (!peer.pods.is_empty() && !peer.addresses.is_empty()).then_some(peer)
}

/// The first of each family.
fn one_of_each<T>(all: impl Iterator<Item = T>, address: impl Fn(&T) -> IpAddr) -> Vec<T> {
    let mut families = BTreeSet::new();
    all.filter(|one| families.insert(IpFamily::of(address(one)))).collect()
}

/// The links of this node. Peers come in a fixed order: if two claim the same pods, the first has them.
pub fn plan(peers: &[Peer], me: &Me) -> Plan {
    let mut plan = Plan::default();
    let Some(own) = peers.iter().find(|peer| peer.name == me.name) else { return plan };
    let underlay = underlay(peers, me);
    let mut taken: BTreeSet<IpNet> = own.pods.iter().copied().collect();
    for peer in peers.iter().filter(|peer| peer.name != me.name) {
        match distrust(peer, &taken, me) {
            Some(problem) => drop(plan.problems.insert(peer.name.clone(), problem)),
            None => {
                for pods in &peer.pods {
                    match reach(&mut plan.links, (peer, *pods), own, (me, underlay)) {
                        Some(problem) => drop(plan.problems.insert(peer.name.clone(), problem)),
                        None => drop(taken.insert(*pods)),
                    }
                }
            }
        }
    }
    plan
}

/// The family in which nodes send each other what they tunnel: the first one that all of them have. All nodes see the same
/// Node objects, and so choose the same one.
fn underlay(peers: &[Peer], me: &Me) -> IpFamily {
    let primary = IpFamily::of(me.cluster.primary().addr());
    let has = |peer: &Peer, family| peer.addresses.iter().any(|address| IpFamily::of(*address) == family);
    let of_all = |family: &IpFamily| peers.iter().all(|peer| has(peer, *family));
    let own = || me.uplinks.first().map(|uplink| IpFamily::of(uplink.address));
    [primary, primary.other()].into_iter().find(of_all).or_else(own).unwrap_or(primary)
}

/// A node must not be able to draw other traffic than its pods' to itself.
fn distrust(peer: &Peer, taken: &BTreeSet<IpNet>, me: &Me) -> Option<String> {
    for pods in &peer.pods {
        let overlaps = |other: &IpNet| other.contains(pods) || pods.contains(other);
        match me.cluster.of_family(IpFamily::of(pods.addr())) {
            Some(cluster) if cluster.contains(pods) => {}
            _ => return Some(format!("its pod range {pods} is not part of the cluster's {}", me.cluster)),
        }
        if taken.iter().any(overlaps) {
            return Some(format!("its pod range {pods} is another node's, too"));
        }
    }
    let claimed = me.uplinks.iter().find(|uplink| peer.addresses.contains(&uplink.address))?;
    Some(format!("it claims this node's address {}", claimed.address))
}

/// Adds what leads to pods of the peer, or says why nothing does.
fn reach(
    links: &mut Links,
    (peer, pods): (&Peer, IpNet),
    own: &Peer,
    (me, underlay): (&Me, IpFamily),
) -> Option<String> {
    let family = IpFamily::of(pods.addr());
    let uplink = |family| me.uplinks.iter().find(|uplink| IpFamily::of(uplink.address) == family);
    let address = |family| peer.addresses.iter().copied().find(|one| IpFamily::of(*one) == family);
    // The next hop of a route is of the route's family.
    let direct = uplink(family).zip(address(family)).filter(|(link, via)| link.network.contains(via));
    match (me.backend, direct) {
        (Backend::Auto | Backend::HostGw, Some((uplink, via))) => {
            links.routes.insert(pods, Route { via, device: uplink.device.clone() });
        }
        (Backend::HostGw, None) => return Some(not_on_link(uplink(family), address(family), family)),
        (Backend::Auto | Backend::Vxlan, _) => {
            let (Some(uplink), Some(address)) = (uplink(underlay), address(underlay)) else {
                return Some(format!("it and this node do not both have an {underlay} address"));
            };
            let mac = Mac::of(peer.pods.first().copied().unwrap_or(pods));
            links.vxlan.get_or_insert_with(|| tunnel(own, me, uplink));
            links.forwarding.insert(mac, address);
            links.neighbours.insert(pods.network(), mac);
            links.routes.insert(pods, Route { via: pods.network(), device: me.tunnel.clone() });
        }
    }
    None
}

fn not_on_link(uplink: Option<&Uplink>, address: Option<IpAddr>, family: IpFamily) -> String {
    match (uplink, address) {
        (Some(uplink), Some(address)) => format!(
            "its address {address} is not on this node's link {} ({}): use --network-backend vxlan",
            uplink.device, uplink.network
        ),
        _ => format!("it and this node do not both have an {family} address: use --network-backend vxlan"),
    }
}

fn tunnel(own: &Peer, me: &Me, uplink: &Uplink) -> Vxlan {
    let network = me.cluster.primary();
    let [a, b, c, d] = digest(network).to_be_bytes();
    Vxlan {
        // The same on all nodes, and another one in every cluster that a machine may be part of.
        id: match network {
            IpNet::V4(_) => u32::from_be_bytes([0, a, b, c]),
            IpNet::V6(_) => u32::from_be_bytes([0, b, c, d]),
        },
        port: PORT,
        local: uplink.address,
        mac: Mac::of(own.pods.first().copied().unwrap_or(network)),
        mtu: uplink.mtu.saturating_sub(overhead(IpFamily::of(uplink.address))),
        addresses: own.pods.iter().map(IpNet::network).collect(),
    }
}

fn overhead(underlay: IpFamily) -> u32 {
    match underlay {
        IpFamily::V4 => OVERHEAD,
        IpFamily::V6 => OVERHEAD_V6,
    }
}

/// The largest packet of pods behind an uplink of that size, on which nodes meet in that family. Unless there are routes
/// only, it leaves room for the tunnel: a node that needs it may join when the pods are long there.
pub fn pod_mtu(uplink: u32, underlay: IpFamily, backend: Backend) -> u32 {
    match backend {
        Backend::HostGw => uplink,
        Backend::Auto | Backend::Vxlan => uplink.saturating_sub(overhead(underlay)),
    }
}
