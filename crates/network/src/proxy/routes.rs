//! Where connections to Services are to go, as a value without any notion of nftables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

/// All that the proxy of one node does in one address family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes {
    pub frontends: BTreeMap<Frontend, Route>,
    /// Pods of this node that may meet themselves behind a Service: they would not accept a packet that
    /// claims to come from their own address.
    pub own_endpoints: BTreeSet<IpAddr>,
}

/// What clients connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Frontend {
    Address(IpAddr, Protocol, u16),
    /// A port of every address of the node.
    NodePort(Protocol, u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub inside: Balance,
    /// For clients outside the cluster, if they may use this node's endpoints alone
    /// (`externalTrafficPolicy: Local`). Those see the clients' own addresses.
    pub outside: Option<Balance>,
    /// Whose connections are let through, if not everybody's (`loadBalancerSourceRanges`).
    pub only_from: Option<Vec<IpNet>>,
}

/// Without endpoints connections are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    pub pick: Pick,
    pub endpoints: BTreeSet<SocketAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pick {
    Random,
    /// A client stays with its endpoint until it has opened no connection for so many seconds.
    ByClient(u32),
    RoundRobin,
}

/// Routes that are to be other ones from now on: what they were and what they become.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteChanges {
    pub frontends: BTreeMap<Frontend, (Option<Route>, Option<Route>)>,
    pub old_own_endpoints: BTreeSet<IpAddr>,
    pub new_own_endpoints: BTreeSet<IpAddr>,
}

impl Routes {
    /// How many endpoints there are behind all frontends.
    pub fn endpoints(&self) -> usize {
        let balances = self.frontends.values().flat_map(Route::balances);
        balances.flat_map(|balance| &balance.endpoints).collect::<BTreeSet<_>>().len()
    }
}

impl RouteChanges {
    pub fn is_empty(&self) -> bool {
        *self == RouteChanges::default()
    }
}

impl Frontend {
    pub fn protocol(&self) -> Protocol {
        match self {
            Frontend::Address(_, protocol, _) | Frontend::NodePort(protocol, _) => *protocol,
        }
    }
}

impl Route {
    pub fn balances(&self) -> impl Iterator<Item = &Balance> {
        std::iter::once(&self.inside).chain(&self.outside)
    }
}

impl Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        })
    }
}
