//! What the maps of the Services' table are: the same ones for both address families, whose keys and values differ in the
//! type of their addresses alone.

use minik8s_meta::IpFamily;

/// Types of keys and values.
pub(super) struct KeyTypes {
    pub address: &'static str,
    pub port: &'static str,
    pub address_index: &'static str,
    pub port_index: &'static str,
    pub endpoint: &'static str,
    two_addresses: &'static str,
    address_and_client: &'static str,
    client_and_address: &'static str,
    client_address_and_endpoint: &'static str,
    /// The packet's part of an address key.
    pub lookup: &'static str,
    /// A client and what it connected to.
    pub client: &'static str,
}

macro_rules! key_types {
    ($type:literal, $ip:literal) => {
        KeyTypes {
            address: concat!($type, " . inet_proto . inet_service"),
            port: "inet_proto . inet_service",
            address_index: concat!($type, " . inet_proto . inet_service . mark"),
            port_index: "inet_proto . inet_service . mark",
            endpoint: concat!($type, " . inet_service"),
            two_addresses: concat!($type, " . ", $type),
            address_and_client: concat!($type, " . inet_proto . inet_service . ", $type),
            client_and_address: concat!($type, " . ", $type, " . inet_proto . inet_service"),
            client_address_and_endpoint: concat!($type, " . ", $type, " . inet_proto . inet_service . mark"),
            lookup: concat!($ip, " daddr . meta l4proto . th dport"),
            client: concat!($ip, " saddr . ", $ip, " daddr . meta l4proto . th dport"),
        }
    };
}

const V4: KeyTypes = key_types!("ipv4_addr", "ip");
const V6: KeyTypes = key_types!("ipv6_addr", "ip6");

pub(super) fn key_types(family: IpFamily) -> &'static KeyTypes {
    match family {
        IpFamily::V4 => &V4,
        IpFamily::V6 => &V6,
    }
}

/// Maps and sets that are always there: name, type of keys, type of values, options.
pub(super) fn fixed_maps(family: IpFamily) -> [(&'static str, &'static str, &'static str, &'static str); 10] {
    let types = key_types(family);
    // In IPv6 it is a set: see the layout.
    let (affinity_key, affinity_value) = match family {
        IpFamily::V4 => (types.client_and_address, "mark"),
        IpFamily::V6 => (types.client_address_and_endpoint, ""),
    };
    [
        ("frontends", types.address, "", ""),
        ("frontend-ports", types.port, "", ""),
        ("services", types.address, "verdict", ""),
        ("node-ports", types.port, "verdict", ""),
        ("outside-services", types.address, "verdict", ""),
        ("outside-node-ports", types.port, "verdict", ""),
        ("hairpin", types.two_addresses, "", ""),
        ("guarded", types.address, "", ""),
        ("allowed", types.address_and_client, "", "flags interval;"),
        ("affinity", affinity_key, affinity_value, "size 262144; flags dynamic,timeout; timeout 3h;"),
    ]
}
