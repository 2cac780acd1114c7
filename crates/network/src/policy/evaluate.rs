//! What policies say about one connection, as plainly as Kubernetes' documentation puts it. Slow, and the judge of all
//! that is fast.

use std::net::{IpAddr, Ipv4Addr};

use super::{Cluster, Direction, Peer, Pod, Policy, Port, Protocol, Rule};

#[derive(Debug, Clone, Copy)]
pub struct Connection<'a> {
    pub from: Party<'a>,
    pub to: Party<'a>,
    pub protocol: Protocol,
    pub port: u16,
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Party<'a> {
    Pod(&'a Pod),
    /// Anybody who is no pod: other machines, other nodes and the pods of their networks.
    Address(IpAddr),
    /// The node of the pod at the other end: it always reaches its pods.
    OwnNode(IpAddr),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Verdict<'a> {
    /// What the policies of the pod that connects say.
    pub egress: Decision<'a>,
    /// What those of the pod that it connects to say.
    pub ingress: Decision<'a>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Decision<'a> {
    /// No policy isolates the pod.
    Open,
    /// By this rule of it, counted from zero.
    Allowed(&'a Policy, usize),
    /// By none of the policies that isolate the pod.
    Denied(Vec<&'a Policy>),
}

impl Verdict<'_> {
    pub fn is_allowed(&self) -> bool {
        self.egress.is_allowed() && self.ingress.is_allowed()
    }
}

impl Decision<'_> {
    pub fn is_allowed(&self) -> bool {
        !matches!(self, Decision::Denied(_))
    }
}

impl<'a> Party<'a> {
    /// A pod of the host's network is its node.
    fn seen(self) -> Party<'a> {
        match self {
            Party::Pod(pod) if pod.host_network => {
                Party::Address(pod.addresses.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into()))
            }
            other => other,
        }
    }

    fn has_address(&self, test: impl Fn(IpAddr) -> bool) -> bool {
        match self {
            Party::Pod(pod) => pod.addresses.iter().any(|address| test(*address)),
            Party::Address(address) | Party::OwnNode(address) => test(*address),
        }
    }
}

/// Both sides must agree: the policies of the one that connects, and those of the one that it connects to.
pub fn evaluate<'a>(cluster: &'a Cluster, connection: &Connection<'_>) -> Verdict<'a> {
    let connection = &Connection { from: connection.from.seen(), to: connection.to.seen(), ..*connection };
    let mut verdict = Verdict { egress: Decision::Open, ingress: Decision::Open };
    let is_same = match (connection.from, connection.to) {
        (Party::Pod(from), Party::Pod(to)) => from.key() == to.key(),
        _ => false,
    };
    // Nothing keeps a pod from itself.
    if is_same {
        return verdict;
    }
    if let Party::Pod(pod) = connection.from {
        verdict.egress = decide(cluster, pod, Direction::Egress, connection);
    }
    if let (Party::Pod(pod), false) = (connection.to, matches!(connection.from, Party::OwnNode(_))) {
        verdict.ingress = decide(cluster, pod, Direction::Ingress, connection);
    }
    verdict
}

fn decide<'a>(
    cluster: &'a Cluster,
    pod: &Pod,
    direction: Direction,
    connection: &Connection<'_>,
) -> Decision<'a> {
    let isolating = cluster.isolating(pod, direction);
    if isolating.is_empty() {
        return Decision::Open;
    }
    let peer = match direction {
        Direction::Ingress => connection.from,
        Direction::Egress => connection.to,
    };
    for policy in &isolating {
        let rules = policy.rules(direction).unwrap_or_default();
        let found =
            rules.iter().position(|rule| allows_peer(rule, peer, cluster) && allows_port(rule, connection));
        if let Some(rule) = found {
            return Decision::Allowed(policy, rule);
        }
    }
    Decision::Denied(isolating)
}

pub(super) fn allows_peer(rule: &Rule, party: Party<'_>, cluster: &Cluster) -> bool {
    let Some(peers) = &rule.peers else { return true };
    peers.iter().any(|peer| match (peer, party) {
        (Peer::Pods(selector), Party::Pod(pod)) => selector.matches(pod, cluster),
        (Peer::Block(block), party) => party.has_address(|address| block.contains(address)),
        _ => false,
    })
}

pub(super) fn allows_port(rule: &Rule, connection: &Connection<'_>) -> bool {
    let Some(ports) = &rule.ports else { return true };
    ports.iter().any(|port| match port {
        Port::Any(protocol) => *protocol == connection.protocol,
        Port::Range(protocol, first, last) => {
            *protocol == connection.protocol && (*first..=*last).contains(&connection.port)
        }
        Port::Named(protocol, name) => match connection.to {
            Party::Pod(pod) => {
                *protocol == connection.protocol && pod.port(name, *protocol) == Some(connection.port)
            }
            _ => false,
        },
        Port::None => false,
    })
}
