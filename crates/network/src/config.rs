//! What the network of a node must be told.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use minik8s_meta::mesh::MeshRouted;
use minik8s_meta::{Cidrs, IpFamily};
use tokio::sync::{Mutex, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::Metrics;
use crate::dns::Hosts;
use crate::pod_network::Backend;
use crate::policy::PodAddresses;

#[derive(Debug, Clone)]
pub struct Config {
    pub node_name: String,
    /// Addresses of this node that its pods reach: one, or one of each family.
    pub node_ips: Vec<IpAddr>,
    /// Addresses of all pods of the cluster: what comes from elsewhere comes from outside. Each family has rules of its own.
    pub cluster_cidr: Cidrs,
    /// How packets reach pods of other nodes.
    pub backend: Backend,
    /// `None`: somebody else answers for the cluster's domain.
    pub dns: Option<Dns>,
    /// TCP ports of the node that no Service may take: without them nobody could reach it.
    pub own_ports: BTreeSet<u16>,
    /// Names that lead to this node itself.
    pub hosts: Option<Hosts>,
    /// Tells of pods of this node that are about to start.
    pub pod_addresses: Arc<Mutex<mpsc::Receiver<PodAddresses>>>,
    pub metrics: Arc<Metrics>,
    /// The interface that this node's pods are behind.
    pub bridge: String,
    /// Tells this agent's table from those of other agents on the host.
    pub instance: String,
    /// What the proxies of the node's pods lead to.
    pub mesh: watch::Receiver<MeshRouted>,
    /// Ends [`run`](crate::run). The rules stay.
    pub stop: CancellationToken,
}

#[derive(Debug, Clone)]
pub struct Dns {
    /// What pods have as their name servers, at most one of each family; they lead to this node's own.
    pub addresses: Vec<IpAddr>,
    pub domain: String,
}

impl Config {
    /// The name of the agent's own nftables table.
    pub fn table(&self) -> String {
        table_of(&self.instance)
    }

    /// What stands for all addresses of the node. The one of IPv6 stands for those of IPv4, too.
    pub fn any_address(&self) -> IpAddr {
        match self.cluster_cidr.v6() {
            Some(_) => Ipv6Addr::UNSPECIFIED.into(),
            None => Ipv4Addr::UNSPECIFIED.into(),
        }
    }

    /// The node's address of that family.
    pub fn node_ip(&self, family: IpFamily) -> Option<IpAddr> {
        self.node_ips.iter().copied().find(|address| IpFamily::of(*address) == family)
    }
}

pub(crate) fn table_of(instance: &str) -> String {
    format!("minik8s-{instance}")
}
