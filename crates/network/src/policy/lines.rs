//! The rules of one pod in one direction, line by line: who may pass at which ports. Whatever no line lets pass is dropped.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use minik8s_meta::IpFamily;

use super::members::{MemberSet, Whom};
use super::{Block, Direction, Peer, Pod, Policy, Port, Protocol, Rule};
use crate::proxy::nft_family;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub peers: Peers,
    pub ports: Ports,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peers {
    Any,
    Pods(MemberSet),
    /// Of which the set has the ports, too.
    PodPorts(MemberSet),
    /// First and last addresses of ranges that do not touch each other, in order.
    Ranges(Vec<(IpAddr, IpAddr)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ports {
    Any,
    Protocol(Protocol),
    Range(Protocol, u16, u16),
}

/// All that these policies allow the pod in one address family.
pub fn lines(policies: &[&Policy], pod: &Pod, (direction, family): (Direction, IpFamily)) -> BTreeSet<Line> {
    let rules = policies.iter().flat_map(|policy| policy.rules(direction).unwrap_or_default());
    let mut lines = BTreeSet::new();
    rules.for_each(|rule| add_rule(&mut lines, rule, pod, (direction, family)));
    // What everybody may needs no other line.
    let everything = Line { peers: Peers::Any, ports: Ports::Any };
    if lines.contains(&everything) {
        lines = [everything].into();
    }
    lines
}

fn add_rule(lines: &mut BTreeSet<Line>, rule: &Rule, pod: &Pod, (direction, family): (Direction, IpFamily)) {
    let peers = peers(rule, family);
    let Some(ports) = &rule.ports else {
        lines.extend(peers.into_iter().map(|peers| Line { peers, ports: Ports::Any }));
        return;
    };
    for port in ports {
        let ports = match (port, direction) {
            (Port::None, _) => continue,
            (Port::Any(protocol), _) => Ports::Protocol(*protocol),
            (Port::Range(protocol, first, last), _) => Ports::Range(*protocol, *first, *last),
            (Port::Named(protocol, name), Direction::Ingress) => match pod.port(name, *protocol) {
                Some(number) => Ports::Range(*protocol, number, number),
                None => continue,
            },
            // Each pod that is connected to has its own number.
            (Port::Named(protocol, name), Direction::Egress) => {
                let sets = whom(rule).into_iter().map(|whom| MemberSet::ports(whom, *protocol, name));
                lines.extend(sets.map(|set| Line { peers: Peers::PodPorts(set), ports: Ports::Any }));
                continue;
            }
        };
        lines.extend(peers.iter().map(|peers| Line { peers: peers.clone(), ports }));
    }
}

fn peers(rule: &Rule, family: IpFamily) -> Vec<Peers> {
    let Some(peers) = &rule.peers else { return vec![Peers::Any] };
    let mut found = Vec::new();
    let mut networks = Vec::new();
    for peer in peers {
        match peer {
            Peer::Pods(selector) => found.push(Peers::Pods(MemberSet::addresses(selector))),
            Peer::Block(block) => networks.extend(networks_of(block, family)),
            Peer::Nobody => {}
        }
    }
    let ranges = ranges(networks);
    match ranges.as_slice() {
        [] => {}
        [(first, last)]
            if size(*first, *last).is_none_or(|size| size > u128::from(u32::MAX) && first.is_ipv4()) =>
        {
            found.push(Peers::Any);
        }
        _ => found.push(Peers::Ranges(ranges)),
    }
    found
}

fn whom(rule: &Rule) -> Vec<Whom> {
    let Some(peers) = &rule.peers else { return vec![Whom::Everybody] };
    let whom = |peer: &Peer| match peer {
        Peer::Pods(selector) => Some(Whom::Selected(selector.clone())),
        Peer::Block(block) => Some(Whom::Within(block.clone())),
        Peer::Nobody => None,
    };
    peers.iter().filter_map(whom).collect()
}

/// What is left of a block without its exceptions, if it is of the family.
fn networks_of(block: &Block, family: IpFamily) -> Vec<IpNet> {
    if IpFamily::of(block.cidr.addr()) != family {
        return Vec::new();
    }
    let except: Vec<IpNet> = block.except.iter().map(IpNet::trunc).collect();
    let mut left = Vec::new();
    subtract(block.cidr.trunc(), &except, &mut left);
    left
}

fn ranges(networks: Vec<IpNet>) -> Vec<(IpAddr, IpAddr)> {
    let mut networks = IpNet::aggregate(&networks);
    networks.sort_unstable();
    let mut ranges: Vec<(IpAddr, IpAddr)> = Vec::new();
    for network in networks {
        match ranges.last_mut() {
            Some((_, last)) if bits(*last).checked_add(1) == Some(bits(network.network())) => {
                *last = network.broadcast();
            }
            _ => ranges.push((network.network(), network.broadcast())),
        }
    }
    ranges
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// `None`: all that there are in IPv6.
fn size(first: IpAddr, last: IpAddr) -> Option<u128> {
    (bits(last) - bits(first)).checked_add(1)
}

fn subtract(whole: IpNet, except: &[IpNet], left: &mut Vec<IpNet>) {
    if except.iter().any(|net| net.contains(&whole)) {
        return;
    }
    let inside: Vec<IpNet> = except.iter().filter(|net| whole.contains(*net)).copied().collect();
    match whole.subnets(whole.prefix_len() + 1) {
        Ok(halves) if !inside.is_empty() => halves.for_each(|half| subtract(half, &inside, left)),
        _ => left.push(whole),
    }
}

impl Line {
    pub fn set(&self) -> Option<&MemberSet> {
        match &self.peers {
            Peers::Pods(set) | Peers::PodPorts(set) => Some(set),
            Peers::Any | Peers::Ranges(_) => None,
        }
    }

    /// As nft prints it: an agent that starts finds that nothing is to be changed. Only egress has sets of ports.
    pub fn text(&self, direction: Direction, family: IpFamily) -> String {
        let ip = nft_family(family);
        let side = match direction {
            Direction::Ingress => "saddr",
            Direction::Egress => "daddr",
        };
        let peers = match &self.peers {
            Peers::Any => String::new(),
            Peers::Pods(set) => format!("{ip} {side} @{} ", set.name()),
            Peers::PodPorts(set) => format!("{ip} {side} . meta l4proto . th dport @{} ", set.name()),
            Peers::Ranges(ranges) => {
                let ranges: Vec<String> = ranges.iter().map(shown_range).collect();
                match ranges.as_slice() {
                    [one] => format!("{ip} {side} {one} "),
                    _ => format!("{ip} {side} {{ {} }} ", ranges.join(", ")),
                }
            }
        };
        let ports = match self.ports {
            Ports::Any => String::new(),
            Ports::Protocol(protocol) => format!("meta l4proto {} ", protocol.number()),
            Ports::Range(protocol, first, last) if first == last => {
                format!("{} dport {first} ", shown_protocol(protocol))
            }
            Ports::Range(protocol, first, last) => {
                format!("{} dport {first}-{last} ", shown_protocol(protocol))
            }
        };
        format!("{peers}{ports}return")
    }
}

fn shown_protocol(protocol: Protocol) -> String {
    protocol.to_string().to_lowercase()
}

/// A network where it is one.
fn shown_range(&(first, last): &(IpAddr, IpAddr)) -> String {
    let whole: u8 = if first.is_ipv4() { 32 } else { 128 };
    let length = size(first, last).map_or(0, |size| whole.saturating_sub(size.ilog2() as u8));
    match IpNet::new(first, length) {
        _ if first == last => first.to_string(),
        Ok(network) if (network.network(), network.broadcast()) == (first, last) => network.to_string(),
        _ => format!("{first}-{last}"),
    }
}
