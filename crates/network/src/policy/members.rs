//! Sets of peers that rules refer to by name: the addresses of pods that a selector chooses, or their named ports.
//!
//! A set's name follows from what chooses its members, so that policies that say the same share it and an agent that starts
//! finds it again. The hash is a cryptographic one: whoever may write policies must not be able to make two selectors meet
//! in one set.

use std::cmp::Ordering;
use std::fmt::Write;

use minik8s_meta::{IpFamily, LabelSelector};
use sha2::{Digest, Sha256};

use super::layout::types;
use super::{Block, Cluster, Pod, PodSelector, Protocol};

/// Ordered and compared by what it says.
#[derive(Debug, Clone)]
pub struct MemberSet {
    text: String,
    name: String,
    whom: Whom,
    /// Only their ports of that name.
    port: Option<(Protocol, String)>,
}

#[derive(Debug, Clone)]
pub enum Whom {
    Everybody,
    Selected(PodSelector),
    Within(Block),
}

impl MemberSet {
    pub fn addresses(selector: &PodSelector) -> MemberSet {
        MemberSet::new(shown_selector(selector), Whom::Selected(selector.clone()), None)
    }

    pub fn ports(whom: Whom, protocol: Protocol, name: &str) -> MemberSet {
        let text = match &whom {
            Whom::Everybody => "everybody".to_owned(),
            Whom::Selected(selector) => shown_selector(selector),
            Whom::Within(block) => format!("{} without {:?}", block.cidr, block.except),
        };
        let text = format!("{name}/{protocol} of {text}");
        MemberSet::new(text, whom, Some((protocol, name.to_owned())))
    }

    fn new(text: String, whom: Whom, port: Option<(Protocol, String)>) -> MemberSet {
        MemberSet { name: format!("pods-{}", fingerprint(&text)), text, whom, port }
    }

    pub fn name(&self) -> String {
        self.name.clone()
    }

    pub fn key_type(&self, family: IpFamily) -> &'static str {
        let [address, _, _, port] = types(family);
        if self.port.is_none() { address } else { port }
    }

    /// Pods that may be in the set: no others need be asked.
    pub fn candidates<'a>(&self, cluster: &'a Cluster) -> Vec<&'a Pod> {
        match &self.whom {
            Whom::Everybody | Whom::Within(_) => cluster.pods.values().collect(),
            Whom::Selected(PodSelector { namespaces: None, own, .. }) => cluster.pods_in(own).collect(),
            Whom::Selected(PodSelector { namespaces: Some(selector), .. }) => {
                let chosen = cluster.namespaces.iter().filter(|(_, own)| selector.matches_labels(Some(own)));
                chosen.flat_map(|(name, _)| cluster.pods_in(name)).collect()
            }
        }
    }

    /// What the pod adds to the set.
    pub fn elements(&self, pod: &Pod, cluster: &Cluster) -> Vec<String> {
        let is_chosen = match &self.whom {
            Whom::Everybody | Whom::Within(_) => !pod.host_network,
            Whom::Selected(selector) => selector.matches(pod, cluster),
        };
        if !is_chosen {
            return Vec::new();
        }
        let suffix = match &self.port {
            None => String::new(),
            Some((protocol, name)) => match pod.port(name, *protocol) {
                Some(number) => format!(" . {} . {number}", shown_protocol(*protocol)),
                None => return Vec::new(),
            },
        };
        let is_within = |address: &&std::net::IpAddr| match &self.whom {
            Whom::Within(block) => block.contains(**address),
            _ => true,
        };
        pod.addresses.iter().filter(is_within).map(|address| format!("{address}{suffix}")).collect()
    }
}

impl PartialEq for MemberSet {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for MemberSet {}

impl PartialOrd for MemberSet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MemberSet {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

/// As nft reads it, and as its lists are read.
pub fn shown_protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    }
}

/// 128 bits in hexadecimal.
pub fn fingerprint(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(16).fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    })
}

/// Names and labels have no brackets, so that no two selectors look alike.
fn shown_selector(selector: &PodSelector) -> String {
    let namespaces = match &selector.namespaces {
        None => format!("namespace [{}]", selector.own),
        Some(namespaces) => format!("namespaces [{}]", shown_labels(namespaces)),
    };
    format!("pods [{}] in {namespaces}", shown_labels(&selector.pods))
}

fn shown_labels(selector: &LabelSelector) -> String {
    match selector.requirements().is_empty() && !selector.is_everything() {
        true => "[nobody]".to_owned(),
        false => selector.to_string(),
    }
}
