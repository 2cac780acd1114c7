//! From [`Routes`] to the [`Ruleset`]: few large maps, whatever the number of Services.
//!
//! A packet's address, protocol and port lead through one map to a chain that stands for a *number* of
//! endpoints. The chain draws an index below that number into the packet's mark, and a second map leads from
//! address, protocol, port and mark to the endpoint. So a Service costs elements only, and a changed endpoint
//! is a changed element. Round robin alone needs a chain per frontend: a counter shared by several Services
//! would let each of them meet the same endpoint over and over.
//!
//! With session affinity the kernel itself remembers which endpoint a client was led to, by an identity that
//! stays the endpoint's own while others come and go; what it remembers about an endpoint that is gone leads
//! nowhere, and the client is led to another.
//!
//! A change comes into force at one moment, but a packet looks into several maps, each as it is at its own moment: one
//! that a change overtakes between two of them finds no endpoint. It must not go on as it is, for the kernel would
//! remember its connection as one that is led nowhere, and lead it nowhere for as long as the client tries. So it is
//! led a second time, and if that fails too it is dropped: then nothing is remembered, and the client's next try is a
//! first one. What says that it was meant for a Service are sets that no change of endpoints touches.
//!
//! The mark's upper half is ours ([`MARK`]); it tells the last chain which connections were led somewhere by
//! this table, so that it rewrites no others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use minik8s_meta::IpFamily;

use super::key_types::{KeyTypes, fixed_maps, key_types};
use super::{Balance, Frontend, Map, Pick, Route, Routes, Ruleset, nft_family};

/// Marks of packets that this table has led to an endpoint: an index is added.
const MARK: u32 = 0x4d38_0000;
/// Set if the endpoint must see the client's own address.
const KEEP_SOURCE: u32 = 0x0001_0000;
const MARK_MASK: u32 = 0xfffe_0000;
/// All but the index.
const UPPER_HALF: u32 = 0xffff_0000;

/// More endpoints than the index has room for are not used.
const MOST_ENDPOINTS: usize = 0x1_0000;

/// The table of a node whose cluster's pods have addresses in `cluster`, of that range's family.
pub fn ruleset(routes: &Routes, table: &str, cluster: IpNet) -> Ruleset {
    let mut rules = Ruleset::new(IpFamily::of(cluster.addr()), table);
    rules.chains = fixed_chains(cluster);
    for (name, ..) in fixed_maps(rules.family) {
        fixed_map(&mut rules, name);
    }
    for (frontend, route) in &routes.frontends {
        add_route(&mut rules, *frontend, route);
    }
    routes.own_endpoints.iter().for_each(|address| own_endpoint(&mut rules, *address));
    rules
}

/// A pod of this node that may meet itself behind a Service.
pub(super) fn own_endpoint(rules: &mut Ruleset, address: IpAddr) {
    fixed_map(rules, "hairpin").elements.insert(format!("{address} . {address}"), String::new());
}

fn fixed_map<'a>(rules: &'a mut Ruleset, name: &str) -> &'a mut Map {
    let fixed = fixed_maps(rules.family).into_iter().find(|(known, ..)| *known == name);
    let map = rules.maps.entry(name.to_owned()).or_default();
    if let Some((_, key_type, value_type, options)) = fixed {
        (map.key_type, map.value_type, map.options) = (key_type, value_type, options);
    }
    map
}

fn fixed_chains(cluster: IpNet) -> BTreeMap<String, Vec<String>> {
    let family = IpFamily::of(cluster.addr());
    let (ip, types) = (nft_family(family), key_types(family));
    let (to, from_to) = (types.lookup, types.client);
    let (multicast, icmp) = match family {
        IpFamily::V4 => ("224.0.0.0/4", "icmp"),
        IpFamily::V6 => ("ff00::/8", "icmpv6"),
    };
    let pair = from_to.trim_end_matches(" . meta l4proto . th dport");
    let mut chains = BTreeMap::from([
        chain(
            "prerouting",
            &[
                "type nat hook prerouting priority -100; policy accept;",
                &format!("{to} @guarded {to} . {ip} saddr != @allowed drop"),
                &format!("{ip} saddr != {cluster} jump outside"),
                "jump inside",
                "jump inside",
                "jump overtaken",
            ],
        ),
        chain(
            "output",
            &["type nat hook output priority -100; policy accept;", "jump inside", "jump inside"],
        ),
        chain(
            "quiet",
            &[
                "type filter hook output priority 0; policy accept;",
                // Names are asked of this node's resolver. While its agent is away nobody is told so: who hears nothing
                // asks again, who is refused gives up.
                &format!("{icmp} type destination-unreachable ct status dnat ct original proto-dst 53 drop"),
            ],
        ),
        chain(
            "refuse",
            &["meta l4proto tcp reject with tcp reset", &format!("reject with {icmp} port-unreachable")],
        ),
        chain(
            "postrouting",
            &[
                "type nat hook postrouting priority 100; policy accept;",
                // Pods keep their addresses within the cluster; nobody outside could answer to them.
                &format!("{ip} saddr {cluster} {ip} daddr != {{ {cluster}, {multicast} }} masquerade"),
                &format!("meta mark & {MARK_MASK:#010x} != {MARK:#010x} return"),
                &format!("{pair} @hairpin masquerade"),
                &format!("meta mark & {KEEP_SOURCE:#010x} == 0x00000000 {ip} saddr != {cluster} masquerade"),
            ],
        ),
    ]);
    chains.extend(lookups(family, to));
    // Of IPv6 the kernel itself drops what comes from elsewhere with the loopback address.
    if family == IpFamily::V4 {
        chains.extend([chain(
            "martians",
            &[
                // Before connections are looked up: answers to this node's own bear other addresses still.
                "type filter hook prerouting priority -300; policy accept;",
                "iifname != \"lo\" ip daddr 127.0.0.0/8 drop",
                "iifname != \"lo\" ip saddr 127.0.0.0/8 drop",
            ],
        )]);
    }
    chains
}

type Chain = (String, Vec<String>);

fn chain(name: &str, rules: &[&str]) -> Chain {
    (name.to_owned(), rules.iter().map(|rule| (*rule).to_owned()).collect())
}

/// By address and port, then by a port of this node.
fn lookups(family: IpFamily, to: &str) -> [Chain; 3] {
    // IPv6 has no `route_localnet`: what is led from ::1 to a pod never comes back.
    let local = match family {
        IpFamily::V4 => "fib daddr type local",
        IpFamily::V6 => "ip6 daddr != ::1 fib daddr type local",
    };
    let port = "meta l4proto . th dport";
    [
        chain("inside", &[&format!("{to} vmap @services"), &format!("{local} {port} vmap @node-ports")]),
        chain(
            "outside",
            &[&format!("{to} vmap @outside-services"), &format!("{local} {port} vmap @outside-node-ports")],
        ),
        chain(
            "overtaken",
            &[&format!("{to} @frontends drop"), &format!("{local} {port} @frontend-ports drop")],
        ),
    ]
}

pub(super) fn add_route(rules: &mut Ruleset, frontend: Frontend, route: &Route) {
    let place = Place::of(frontend, rules.family);
    let verdict = add_balance(rules, &place, &route.inside, MARK);
    fixed_map(rules, place.inside).elements.insert(place.key.clone(), verdict);
    fixed_map(rules, place.all).elements.insert(place.key.clone(), String::new());
    if let Some(balance) = &route.outside {
        let verdict = add_balance(rules, &place, balance, MARK | KEEP_SOURCE);
        fixed_map(rules, place.outside).elements.insert(place.key.clone(), verdict);
    }
    // Node ports have no address to guard.
    if let (Frontend::Address(..), Some(ranges)) = (frontend, &route.only_from) {
        fixed_map(rules, "guarded").elements.insert(place.key.clone(), String::new());
        let allowed = ranges.iter().map(|range| (format!("{} . {range}", place.key), String::new()));
        fixed_map(rules, "allowed").elements.extend(allowed);
    }
}

/// Where a frontend stands in the maps.
struct Place {
    key: String,
    inside: &'static str,
    outside: &'static str,
    /// The set of all frontends of its kind.
    all: &'static str,
    /// Begins the names of its maps and chains.
    kind: &'static str,
    index_key: &'static str,
    /// The packet's part of a key.
    lookup: &'static str,
    ip: &'static str,
    types: &'static KeyTypes,
}

impl Place {
    fn of(frontend: Frontend, family: IpFamily) -> Place {
        let (ip, types) = (nft_family(family), key_types(family));
        match frontend {
            Frontend::Address(address, protocol, port) => Place {
                key: format!("{address} . {protocol} . {port}"),
                inside: "services",
                outside: "outside-services",
                all: "frontends",
                kind: "address",
                index_key: types.address_index,
                lookup: types.lookup,
                ip,
                types,
            },
            Frontend::NodePort(protocol, port) => Place {
                key: format!("{protocol} . {port}"),
                inside: "node-ports",
                outside: "outside-node-ports",
                all: "frontend-ports",
                kind: "port",
                index_key: types.port_index,
                lookup: "meta l4proto . th dport",
                ip,
                types,
            },
        }
    }

    fn map<'a>(&self, rules: &'a mut Ruleset, name: &str, value_type: &'static str) -> &'a mut Map {
        let map = rules.maps.entry(name.to_owned()).or_default();
        (map.key_type, map.value_type) = (self.index_key, value_type);
        map
    }

    /// dnat to a port wants to know that the packet has ports.
    fn lead(&self, map: &str) -> String {
        let Place { ip, lookup, .. } = self;
        format!("meta l4proto {{ tcp, udp, sctp }} dnat {ip} to {lookup} . meta mark map @{map}")
    }
}

/// Adds the endpoints and the chain that picks among them; returns the verdict that leads there.
fn add_balance(rules: &mut Ruleset, place: &Place, balance: &Balance, mark: u32) -> String {
    let count = balance.endpoints.len().min(MOST_ENDPOINTS);
    if count == 0 {
        return "goto refuse".to_owned();
    }
    let suffix = if mark & KEEP_SOURCE == 0 { "" } else { "-local" };
    let kind = place.kind;
    let chain = match balance.pick {
        Pick::ByClient(seconds) => {
            let chain = format!("{kind}-sticky-{count}-{seconds}{suffix}");
            add_sticky(rules, place, balance, (&chain, mark, seconds));
            return format!("goto {chain}");
        }
        // With one endpoint there are no turns to take.
        Pick::RoundRobin if count > 1 => {
            // Names of chains have no colons.
            format!("turns-{}{suffix}", place.key.replace(" . ", "-").replace(':', "_"))
        }
        Pick::Random | Pick::RoundRobin => format!("{kind}-random-{count}{suffix}"),
    };
    let map = format!("{kind}-endpoints-{count}");
    let numbered = (mark..).zip(balance.endpoints.iter().take(count));
    let elements =
        numbered.map(|(index, endpoint)| (format!("{} . {index:#010x}", place.key), shown(endpoint)));
    place.map(rules, &map, place.types.endpoint).elements.extend(elements);
    rules.chains.insert(chain.clone(), vec![draw(balance.pick, count, mark), place.lead(&map)]);
    format!("goto {chain}")
}

/// Who was here before is led to the same endpoint as then, if that is still one.
fn add_sticky(
    rules: &mut Ruleset,
    place: &Place,
    balance: &Balance,
    (chain, mark, seconds): (&str, u32, u32),
) {
    let count = balance.endpoints.len().min(MOST_ENDPOINTS);
    let ids = format!("{}-sticky-ids-{count}", place.kind);
    let endpoints = format!("{}-sticky-endpoints", place.kind);
    for (index, (id, endpoint)) in (mark..).zip(identities(balance.endpoints.iter().take(count))) {
        let id = mark | u32::from(id);
        let key = |number: u32| format!("{} . {number:#010x}", place.key);
        place.map(rules, &ids, "mark").elements.insert(key(index), format!("{id:#010x}"));
        place.map(rules, &endpoints, place.types.endpoint).elements.insert(key(id), shown(endpoint));
    }
    let maps = (ids.as_str(), endpoints.as_str());
    let lines = match rules.family {
        IpFamily::V4 => sticky_by_map(place, maps, (count, mark, seconds)),
        IpFamily::V6 => sticky_by_set(place, maps, (count, mark, seconds)),
    };
    rules.chains.insert(chain.to_owned(), lines);
}

/// The kernel's memory is a map from clients to endpoints.
fn sticky_by_map(
    place: &Place,
    (ids, endpoints): (&str, &str),
    (count, mark, seconds): (usize, u32, u32),
) -> Vec<String> {
    let known = format!("meta mark & {UPPER_HALF:#010x} == {mark:#010x}");
    let client = place.types.client;
    let remember = format!("update @affinity {{ {client} timeout {seconds}s : meta mark }}");
    let lead = place.lead(endpoints);
    vec![
        "meta mark set 0x00000000".to_owned(),
        format!("meta mark set {client} map @affinity"),
        format!("{known} {remember}"),
        format!("{known} {lead}"),
        draw(Pick::Random, count, mark),
        format!("meta mark set {} . meta mark map @{ids}", place.lookup),
        // An update keeps the old value: what was remembered of an endpoint that is gone must go first.
        format!("delete @affinity {{ {client} : meta mark }}"),
        remember,
        lead,
    ]
}

/// The kernel's memory is a set of clients with their endpoints, which are tried one after the other: a map's elements are
/// not changed by rules if their keys are longer than one IPv6 address (nft 1.0.6 ends with a failed assertion).
fn sticky_by_set(
    place: &Place,
    (ids, endpoints): (&str, &str),
    (count, mark, seconds): (usize, u32, u32),
) -> Vec<String> {
    let client = format!("{} . meta mark", place.types.client);
    let remember = format!("update @affinity {{ {client} timeout {seconds}s }}");
    let identify = format!("meta mark set {} . meta mark map @{ids}", place.lookup);
    let lead = place.lead(endpoints);
    let mut lines = Vec::new();
    for (_, index) in (0..count).zip(mark..) {
        let known = format!("{client} @affinity {remember} {lead}");
        lines.extend([format!("meta mark set {index:#010x}"), identify.clone(), known]);
    }
    lines.extend([draw(Pick::Random, count, mark), identify, remember, lead]);
    lines
}

/// A number for each endpoint that does not depend on the others, but for rare collisions.
fn identities<'a>(
    endpoints: impl Iterator<Item = &'a SocketAddr>,
) -> impl Iterator<Item = (u16, &'a SocketAddr)> {
    let mut taken = BTreeSet::new();
    endpoints.map(move |endpoint| {
        let mut bytes = match endpoint.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        bytes.extend(endpoint.port().to_be_bytes());
        // FNV-1a, folded.
        let hash = bytes
            .into_iter()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let mut id = (hash >> 16) as u16 ^ hash as u16;
        while !taken.insert(id) {
            id = id.wrapping_add(1);
        }
        (id, endpoint)
    })
}

fn shown(endpoint: &SocketAddr) -> String {
    format!("{} . {}", endpoint.ip(), endpoint.port())
}

fn draw(pick: Pick, count: usize, mark: u32) -> String {
    match pick {
        _ if count == 1 => format!("meta mark set {mark:#010x}"),
        Pick::RoundRobin => format!("meta mark set numgen inc mod {count} offset {mark:#010x}"),
        _ => format!("meta mark set numgen random mod {count} offset {mark:#010x}"),
    }
}
