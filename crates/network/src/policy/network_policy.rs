//! A NetworkPolicy as a value that answers questions: selectors are compiled, ranges are read, defaults are filled in.
//!
//! What cannot be read never opens anything: a peer or port that makes no sense matches nobody, and a policy whose
//! `podSelector` makes no sense isolates every pod of its namespace. The API server refuses such policies.

use std::fmt;

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use minik8s_meta::LabelSelector;

use super::{Cluster, Pod};

#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub namespace: String,
    pub name: String,
    /// The pods that it is about, in its own namespace.
    pub pods: LabelSelector,
    /// What they may be sent; `None` if it says nothing about that.
    pub ingress: Option<Vec<Rule>>,
    /// What they may send.
    pub egress: Option<Vec<Rule>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    Ingress,
    Egress,
}

/// Allows what comes from (or goes to) any of the peers at any of the ports. `None`: all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub peers: Option<Vec<Peer>>,
    pub ports: Option<Vec<Port>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Peer {
    Pods(PodSelector),
    Block(Block),
    /// What cannot be read.
    Nobody,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PodSelector {
    /// `None`: the namespace `own`.
    pub namespaces: Option<LabelSelector>,
    pub own: String,
    pub pods: LabelSelector,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub cidr: IpNet,
    pub except: Vec<IpNet>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Port {
    Any(Protocol),
    /// Both ends included.
    Range(Protocol, u16, u16),
    /// Of the pod that the connection goes to.
    Named(Protocol, String),
    /// What cannot be read.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl From<&NetworkPolicy> for Policy {
    fn from(policy: &NetworkPolicy) -> Self {
        let namespace = policy.namespace().unwrap_or_default();
        let spec = policy.spec.clone().unwrap_or_default();
        let (ingress, egress) = (ingress_rules(&spec, &namespace), egress_rules(&spec, &namespace));
        let pods = spec.pod_selector.unwrap_or_default();
        Policy {
            name: policy.name_any(),
            pods: LabelSelector::try_from(&pods).unwrap_or_else(|_| LabelSelector::everything()),
            ingress,
            egress,
            namespace,
        }
    }
}

impl Policy {
    /// `None` if it is not about that direction.
    pub fn rules(&self, direction: Direction) -> Option<&[Rule]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }

    /// Whether it is about the pod. Pods of the host's network are not guarded.
    pub fn selects(&self, pod: &Pod) -> bool {
        !pod.host_network && self.namespace == pod.namespace && self.pods.matches_labels(Some(&pod.labels))
    }
}

impl PodSelector {
    /// Pods of the host's network are known by their node's address alone.
    pub fn matches(&self, pod: &Pod, cluster: &Cluster) -> bool {
        let fits = match &self.namespaces {
            None => self.own == pod.namespace,
            Some(selector) => {
                let labels = cluster.namespaces.get(&pod.namespace);
                labels.is_some_and(|labels| selector.matches_labels(Some(labels)))
            }
        };
        fits && !pod.host_network && self.pods.matches_labels(Some(&pod.labels))
    }
}

impl Block {
    pub fn contains(&self, address: std::net::IpAddr) -> bool {
        self.cidr.contains(&address) && !self.except.iter().any(|except| except.contains(&address))
    }
}

impl Protocol {
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
        }
    }

    /// As Kubernetes writes it; TCP by default.
    pub fn parse(text: Option<&str>) -> Option<Protocol> {
        match text {
            None | Some("" | "TCP") => Some(Protocol::Tcp),
            Some("UDP") => Some(Protocol::Udp),
            Some("SCTP") => Some(Protocol::Sctp),
            Some(_) => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        })
    }
}

fn is_of_type(spec: &NetworkPolicySpec, kind: &str) -> bool {
    match spec.policy_types.as_deref() {
        Some([]) | None => kind == "Ingress" || spec.egress.as_ref().is_some_and(|rules| !rules.is_empty()),
        Some(types) => types.iter().any(|one| one == kind),
    }
}

fn ingress_rules(spec: &NetworkPolicySpec, namespace: &str) -> Option<Vec<Rule>> {
    let rules = spec.ingress.iter().flatten();
    let rules = rules.map(|one| rule(one.from.as_deref(), one.ports.as_deref(), namespace));
    is_of_type(spec, "Ingress").then(|| rules.collect())
}

fn egress_rules(spec: &NetworkPolicySpec, namespace: &str) -> Option<Vec<Rule>> {
    let rules = spec.egress.iter().flatten();
    let rules = rules.map(|one| rule(one.to.as_deref(), one.ports.as_deref(), namespace));
    is_of_type(spec, "Egress").then(|| rules.collect())
}

fn rule(peers: Option<&[NetworkPolicyPeer]>, ports: Option<&[NetworkPolicyPort]>, namespace: &str) -> Rule {
    // An empty list is no list.
    let peers = peers.filter(|peers| !peers.is_empty());
    let ports = ports.filter(|ports| !ports.is_empty());
    Rule {
        peers: peers.map(|peers| peers.iter().map(|one| peer(one, namespace)).collect()),
        ports: ports.map(|ports| ports.iter().map(port).collect()),
    }
}

fn peer(peer: &NetworkPolicyPeer, namespace: &str) -> Peer {
    let selector = |selector: &meta::LabelSelector| {
        LabelSelector::try_from(selector).unwrap_or_else(|_| LabelSelector::nothing())
    };
    match (&peer.ip_block, &peer.namespace_selector, &peer.pod_selector) {
        (Some(found), None, None) => block(found).map_or(Peer::Nobody, Peer::Block),
        (None, None, None) | (Some(_), ..) => Peer::Nobody,
        (None, namespaces, pods) => Peer::Pods(PodSelector {
            namespaces: namespaces.as_ref().map(selector),
            own: namespace.to_owned(),
            pods: pods.as_ref().map_or_else(LabelSelector::everything, selector),
        }),
    }
}

/// An exception that cannot be read must not be passed over: nothing of the block is allowed then.
fn block(block: &IPBlock) -> Option<Block> {
    let except: Result<Vec<IpNet>, _> = block.except.iter().flatten().map(|text| text.parse()).collect();
    Some(Block { cidr: block.cidr.parse().ok()?, except: except.ok()? })
}

fn port(port: &NetworkPolicyPort) -> Port {
    let Some(protocol) = Protocol::parse(port.protocol.as_deref()) else { return Port::None };
    match (&port.port, port.end_port) {
        (None, None) => Port::Any(protocol),
        (Some(IntOrString::String(name)), None) => Port::Named(protocol, name.clone()),
        (Some(IntOrString::Int(first)), last) => {
            match (u16::try_from(*first), u16::try_from(last.unwrap_or(*first))) {
                (Ok(first), Ok(last)) if first <= last => Port::Range(protocol, first, last),
                _ => Port::None,
            }
        }
        _ => Port::None,
    }
}
