//! What the table has whatever policies there are.
//!
//! A packet is judged where the node forwards it, after its address was translated to that of a Service's endpoint and
//! before the sender's address is hidden: by the rules of the pod that sends it, then by those of the pod that gets it.
//! What pods send to the node itself passes the input hook, by the sender's rules alone; what the node itself sends to its
//! pods passes neither. Answers always pass. Every packet in the direction of the one who connected is judged anew, so
//! that a policy ends connections that it does not allow.
//!
//! Packets between pods of one node pass these hooks because the agent switches `bridge-nf-call-iptables` (and
//! `bridge-nf-call-ip6tables`) on.

use std::collections::BTreeMap;
use std::net::IpAddr;

use minik8s_meta::IpFamily;

use crate::proxy::{Chain, Map, Ruleset, nft_family};

/// What nft calls an address of the family, two of them, one with a protocol, and one with protocol and port.
pub fn types(family: IpFamily) -> [&'static str; 4] {
    match family {
        IpFamily::V4 => [
            "ipv4_addr",
            "ipv4_addr . ipv4_addr",
            "ipv4_addr . inet_proto",
            "ipv4_addr . inet_proto . inet_service",
        ],
        IpFamily::V6 => [
            "ipv6_addr",
            "ipv6_addr . ipv6_addr",
            "ipv6_addr . inet_proto",
            "ipv6_addr . inet_proto . inet_service",
        ],
    }
}

/// Of isolated pods, where the lines of each begin.
pub const EGRESS: &str = "egress";
pub const INGRESS: &str = "ingress";
/// Pods that meet themselves behind a Service.
pub const OWN: &str = "own";
/// Isolated pods that may ask the resolver, and by which protocol.
pub const RESOLVER: &str = "resolver-clients";

/// Without elements.
pub fn fixed_maps(family: IpFamily, table: &str) -> Ruleset {
    let [address, pair, client, _] = types(family);
    let map = |(name, key_type, value_type): (&str, &'static str, &'static str)| {
        (name.to_owned(), Map { key_type, value_type, ..Map::default() })
    };
    // Name, type of keys, type of values.
    let all = [
        (EGRESS, address, "verdict"),
        (INGRESS, address, "verdict"),
        (OWN, pair, ""),
        (RESOLVER, client, ""),
    ];
    Ruleset { maps: all.map(map).into(), ..Ruleset::new(family, table) }
}

pub fn fixed_chains(family: IpFamily, resolver: Option<IpAddr>) -> BTreeMap<String, Chain> {
    let ip = nft_family(family);
    let always = ["ct direction reply accept", "ct state related accept"];
    let forward = [
        "type filter hook forward priority 0; policy accept;",
        always[0],
        always[1],
        &format!("{ip} saddr . {ip} daddr @own accept"),
        &format!("{ip} saddr vmap @egress"),
        &format!("{ip} daddr vmap @ingress"),
    ];
    let mut input = ["type filter hook input priority 0; policy accept;", always[0], always[1]]
        .map(str::to_owned)
        .to_vec();
    if let Some(address) = resolver {
        for protocol in [6, 17] {
            input.push(format!(
                "ct original {ip} daddr {address} meta l4proto {protocol} ct original proto-dst 53 \
                 {ip} saddr . meta l4proto @{RESOLVER} accept"
            ));
        }
    }
    input.push(format!("{ip} saddr vmap @egress"));
    BTreeMap::from([("forward".to_owned(), forward.map(str::to_owned).to_vec()), ("input".to_owned(), input)])
}
