//! From [`Routes`] to the [`Ruleset`]: few large maps, whatever the number of Services.
//!
//! A packet's address, protocol and port lead through one map to a chain that stands for a *number* of
//! endpoints. The chain draws an index below that number into the packet's mark, and a second map leads from
//! address, protocol, port and mark to the endpoint. So a Service costs elements only, and a changed endpoint
//! is a changed element. Round robin alone needs a chain per frontend: a counter shared by several Services
//! would let each of them meet the same endpoint over and over.
//!
//! The mark's upper half is ours ([`MARK`]); it tells the last chain which connections were led somewhere by
//! this table, so that it rewrites no others.

use std::collections::BTreeMap;

use ipnet::Ipv4Net;

use super::{Balance, Frontend, Map, Pick, Route, Routes, Ruleset};

/// Marks of packets that this table has led to an endpoint: an index is added.
const MARK: u32 = 0x4d38_0000;
/// Set if the endpoint must see the client's own address.
const KEEP_SOURCE: u32 = 0x0001_0000;
const MARK_MASK: u32 = 0xfffe_0000;

/// More endpoints than the index has room for are not used.
const MOST_ENDPOINTS: usize = 0x1_0000;

const ADDRESS_KEY: &str = "ipv4_addr . inet_proto . inet_service";
const PORT_KEY: &str = "inet_proto . inet_service";
const ADDRESS_INDEX_KEY: &str = "ipv4_addr . inet_proto . inet_service . mark";
const PORT_INDEX_KEY: &str = "inet_proto . inet_service . mark";
const ENDPOINT: &str = "ipv4_addr . inet_service";

/// The table of a node whose cluster's pods have addresses in `cluster`.
pub fn ruleset(routes: &Routes, table: &str, cluster: Ipv4Net) -> Ruleset {
    let mut rules = Ruleset { table: table.to_owned(), maps: fixed_maps(), chains: fixed_chains(cluster) };
    for (frontend, route) in &routes.frontends {
        add_route(&mut rules, *frontend, route);
    }
    let own = routes.own_endpoints.iter().map(|address| (format!("{address} . {address}"), String::new()));
    rules.maps.entry("hairpin".to_owned()).or_default().elements.extend(own);
    rules
}

fn fixed_maps() -> BTreeMap<String, Map> {
    let map = |name: &str, key_type, value_type| {
        (name.to_owned(), Map { key_type, value_type, elements: BTreeMap::new() })
    };
    BTreeMap::from([
        map("services", ADDRESS_KEY, "verdict"),
        map("node-ports", PORT_KEY, "verdict"),
        map("outside-services", ADDRESS_KEY, "verdict"),
        map("outside-node-ports", PORT_KEY, "verdict"),
        map("hairpin", "ipv4_addr . ipv4_addr", ""),
    ])
}

fn fixed_chains(cluster: Ipv4Net) -> BTreeMap<String, Vec<String>> {
    let chain = |name: &str, rules: &[&str]| {
        (name.to_owned(), rules.iter().map(|rule| (*rule).to_owned()).collect::<Vec<_>>())
    };
    let from_outside = format!("ip saddr != {cluster} jump outside");
    let not_ours = format!("meta mark & {MARK_MASK:#010x} != {MARK:#010x} return");
    let masquerade =
        format!("meta mark & {KEEP_SOURCE:#010x} == 0x00000000 ip saddr != {cluster} masquerade");
    BTreeMap::from([
        chain(
            "prerouting",
            &["type nat hook prerouting priority -100; policy accept;", &from_outside, "jump inside"],
        ),
        chain("output", &["type nat hook output priority -100; policy accept;", "jump inside"]),
        chain(
            "inside",
            &[
                "ip daddr . meta l4proto . th dport vmap @services",
                // A connection to the loopback address could not leave this machine's loopback interface.
                "ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @node-ports",
            ],
        ),
        chain(
            "outside",
            &[
                "ip daddr . meta l4proto . th dport vmap @outside-services",
                "fib daddr type local meta l4proto . th dport vmap @outside-node-ports",
            ],
        ),
        chain("refuse", &["meta l4proto tcp reject with tcp reset", "reject with icmp port-unreachable"]),
        chain(
            "postrouting",
            &[
                "type nat hook postrouting priority 100; policy accept;",
                &not_ours,
                "ip saddr . ip daddr @hairpin masquerade",
                &masquerade,
            ],
        ),
    ])
}

fn add_route(rules: &mut Ruleset, frontend: Frontend, route: &Route) {
    let (key, inside, outside) = match frontend {
        Frontend::Address(address, protocol, port) => {
            (format!("{address} . {protocol} . {port}"), "services", "outside-services")
        }
        Frontend::NodePort(protocol, port) => {
            (format!("{protocol} . {port}"), "node-ports", "outside-node-ports")
        }
    };
    let verdict = add_balance(rules, frontend, &key, &route.inside, MARK);
    add_element(rules, inside, &key, verdict);
    if let Some(balance) = &route.outside {
        let verdict = add_balance(rules, frontend, &key, balance, MARK | KEEP_SOURCE);
        add_element(rules, outside, &key, verdict);
    }
}

/// Adds the endpoints and the chain that picks among them; returns the verdict that leads there.
fn add_balance(rules: &mut Ruleset, frontend: Frontend, key: &str, balance: &Balance, mark: u32) -> String {
    let count = balance.endpoints.len().min(MOST_ENDPOINTS);
    if count == 0 {
        return "goto refuse".to_owned();
    }
    let (map, key_type, lookup) = match frontend {
        Frontend::Address(..) => {
            (format!("endpoints-{count}"), ADDRESS_INDEX_KEY, "ip daddr . meta l4proto . th dport")
        }
        Frontend::NodePort(..) => {
            (format!("port-endpoints-{count}"), PORT_INDEX_KEY, "meta l4proto . th dport")
        }
    };
    let chain = chain_name(frontend, key, balance.pick, count, mark);
    rules.chains.entry(chain.clone()).or_insert_with(|| {
        // dnat to a port wants to know that the packet has ports.
        let lead = format!("meta l4proto {{ tcp, udp }} dnat ip to {lookup} . meta mark map @{map}");
        vec![draw(balance.pick, count, mark), lead]
    });
    let map = rules.maps.entry(map).or_default();
    (map.key_type, map.value_type) = (key_type, ENDPOINT);
    for (index, endpoint) in (mark..).zip(balance.endpoints.iter().take(count)) {
        let value = format!("{} . {}", endpoint.ip(), endpoint.port());
        map.elements.insert(format!("{key} . {index:#010x}"), value);
    }
    format!("goto {chain}")
}

fn chain_name(frontend: Frontend, key: &str, pick: Pick, count: usize, mark: u32) -> String {
    let kind = if matches!(frontend, Frontend::Address(..)) { "address" } else { "port" };
    let suffix = if mark & KEEP_SOURCE == 0 { "" } else { "-local" };
    match pick {
        Pick::Random => format!("{kind}-random-{count}{suffix}"),
        // With one endpoint there is nothing to pick.
        Pick::ByClient | Pick::RoundRobin if count == 1 => format!("{kind}-random-1{suffix}"),
        Pick::ByClient => format!("{kind}-client-{count}{suffix}"),
        Pick::RoundRobin => format!("turns-{}{suffix}", key.replace(" . ", "-")),
    }
}

fn draw(pick: Pick, count: usize, mark: u32) -> String {
    match pick {
        _ if count == 1 => format!("meta mark set {mark:#010x}"),
        Pick::Random => format!("meta mark set numgen random mod {count} offset {mark:#010x}"),
        Pick::ByClient => format!("meta mark set jhash ip saddr mod {count} seed 0x1 offset {mark:#010x}"),
        Pick::RoundRobin => format!("meta mark set numgen inc mod {count} offset {mark:#010x}"),
    }
}

fn add_element(rules: &mut Ruleset, map: &str, key: &str, verdict: String) {
    rules.maps.entry(map.to_owned()).or_default().elements.insert(key.to_owned(), verdict);
}
