//! The rules of one address of this node: those of the pod that has it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use minik8s_meta::IpFamily;

use super::lines::{Line, lines};
use super::members::fingerprint;
use super::{Cluster, Connection, Direction, NamedPort, Party, Pod, Policy, Protocol, evaluate};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// `None`: open.
    pub ingress: Option<Arc<PolicyChain>>,
    pub egress: Option<Arc<PolicyChain>>,
    /// By which protocols an isolated pod may ask the node's resolver.
    pub resolver: Vec<Protocol>,
}

/// Pods that may the same share a chain: its name follows from its lines.
#[derive(Debug, PartialEq, Eq)]
pub struct PolicyChain {
    pub name: String,
    pub direction: Direction,
    pub lines: BTreeSet<Line>,
    family: IpFamily,
}

impl AddressRules {
    pub fn is_open(&self) -> bool {
        self.ingress.is_none() && self.egress.is_none()
    }

    pub fn chains(&self) -> impl Iterator<Item = &Arc<PolicyChain>> {
        self.ingress.iter().chain(&self.egress)
    }
}

impl PolicyChain {
    pub fn text(&self) -> Vec<String> {
        let lines = self.lines.iter().map(|line| line.text(self.direction, self.family));
        lines.chain(["drop".to_owned()]).collect()
    }
}

/// Chains that were made for other pods of the same cluster: thousands may be isolated by the same policies.
pub type MadeChains = HashMap<(Direction, Vec<usize>, Vec<NamedPort>), Made>;

/// With the protocols by which the resolver may be asked.
type Made = (Arc<PolicyChain>, Vec<Protocol>);

/// `resolver` is the cluster's DNS address, behind which each node has a resolver of its own.
pub fn address_rules(
    cluster: &Cluster,
    pod: &Pod,
    (resolver, family): (Option<IpAddr>, IpFamily),
    made: &mut MadeChains,
) -> AddressRules {
    let mut chain = |direction: Direction| -> Option<Made> {
        let policies = cluster.isolating(pod, direction);
        if policies.is_empty() {
            return None;
        }
        // They stay where they are while chains are made.
        let places = policies.iter().map(|policy| std::ptr::from_ref::<Policy>(policy).addr()).collect();
        let key = (direction, places, pod.ports.clone());
        let make = || {
            let resolver = resolver.filter(|_| direction == Direction::Egress).map(resolver_pod);
            (
                Arc::new(policy_chain(&policies, pod, (direction, family))),
                resolver_protocols(cluster, pod, resolver),
            )
        };
        Some(made.entry(key).or_insert_with(make).clone())
    };
    let (egress, resolver) =
        chain(Direction::Egress).map_or((None, Vec::new()), |(one, two)| (Some(one), two));
    AddressRules { ingress: chain(Direction::Ingress).map(|(chain, _)| chain), egress, resolver }
}

fn policy_chain(policies: &[&Policy], pod: &Pod, (direction, family): (Direction, IpFamily)) -> PolicyChain {
    let lines = lines(policies, pod, (direction, family));
    let texts: Vec<String> = lines.iter().map(|line| line.text(direction, family)).collect();
    let word = match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    };
    PolicyChain { name: format!("{word}-{}", fingerprint(&texts.join("\n"))), direction, lines, family }
}

fn resolver_protocols(cluster: &Cluster, pod: &Pod, resolver: Option<Pod>) -> Vec<Protocol> {
    let Some(resolver) = resolver else { return Vec::new() };
    let may_ask = |protocol: &Protocol| {
        let (from, to) = (Party::Pod(pod), Party::Pod(&resolver));
        let connection = Connection { from, to, protocol: *protocol, port: 53 };
        evaluate(cluster, &connection).egress.is_allowed()
    };
    [Protocol::Tcp, Protocol::Udp].into_iter().filter(may_ask).collect()
}

/// There are no pods behind the cluster's DNS address. What policies say of the usual ones holds for the resolvers.
pub fn resolver_pod(address: IpAddr) -> Pod {
    let port = |name: &str, protocol| NamedPort { name: name.to_owned(), protocol, number: 53 };
    Pod {
        namespace: "kube-system".to_owned(),
        name: "kube-dns".to_owned(),
        labels: BTreeMap::from([("k8s-app".to_owned(), "kube-dns".to_owned())]),
        addresses: vec![address],
        ports: vec![port("dns", Protocol::Udp), port("dns-tcp", Protocol::Tcp)],
        ..Pod::default()
    }
}
