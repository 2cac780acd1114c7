//! What leads from the [`Links`] that are there to those that are wanted: only what differs.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Links, Owner, Vxlan};

/// Marks our routes among those of the administrator and of other programs.
pub const ROUTE_PROTOCOL: u8 = 77;

/// Lines for `ip -batch` and `bridge -batch`, to be run in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Before anything refers to the device.
    pub device: String,
    pub forwarding: String,
    pub routes: String,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }
}

pub fn changes(seen: &Links, wanted: &Links, owner: &Owner) -> Changes {
    let Owner { tunnel, metric } = owner;
    let mut changes = Changes::default();
    let mut seen = seen.clone();
    if seen.vxlan != wanted.vxlan {
        if seen.vxlan.is_some() {
            line(&mut changes.device, format_args!("link delete dev {tunnel}"));
            // The kernel removes what went through it.
            seen.forwarding.clear();
            seen.neighbours.clear();
            seen.routes.retain(|_, route| route.device != *tunnel);
        }
        if let Some(vxlan) = &wanted.vxlan {
            add_device(&mut changes.device, vxlan, tunnel);
        }
    }
    let (gone, new) = differences(&seen.forwarding, &wanted.forwarding);
    for (mac, _) in gone {
        line(&mut changes.forwarding, format_args!("fdb delete {mac} dev {tunnel}"));
    }
    for (mac, address) in new {
        line(
            &mut changes.forwarding,
            format_args!("fdb replace {mac} dev {tunnel} dst {address} self permanent"),
        );
    }
    let (gone, new) = differences(&seen.neighbours, &wanted.neighbours);
    for (address, _) in gone {
        line(&mut changes.routes, format_args!("neigh delete {address} dev {tunnel}"));
    }
    for (address, mac) in new {
        line(
            &mut changes.routes,
            format_args!("neigh replace {address} lladdr {mac} dev {tunnel} nud permanent"),
        );
    }
    let (gone, new) = differences(&seen.routes, &wanted.routes);
    for (pods, _) in gone {
        line(&mut changes.routes, format_args!("route delete {pods} proto {ROUTE_PROTOCOL} metric {metric}"));
    }
    for (pods, route) in new {
        let onlink = if route.device == *tunnel { " onlink" } else { "" };
        let is_moved = seen.routes.get(pods).is_some_and(|old| old.device != route.device);
        if is_moved && pods.addr().is_ipv6() {
            // The kernel takes no gateway to which another device leads.
            line(
                &mut changes.routes,
                format_args!("route delete {pods} proto {ROUTE_PROTOCOL} metric {metric}"),
            );
        }
        line(
            &mut changes.routes,
            format_args!(
                "route replace {pods} via {} dev {}{onlink} proto {ROUTE_PROTOCOL} metric {metric}",
                route.via, route.device
            ),
        );
    }
    changes
}

fn add_device(out: &mut String, vxlan: &Vxlan, tunnel: &str) {
    let Vxlan { id, port, local, mac, mtu, addresses } = vxlan;
    line(
        out,
        format_args!(
            "link add {tunnel} address {mac} mtu {mtu} type vxlan id {id} dstport {port} local {local} nolearning"
        ),
    );
    for address in addresses {
        // Nobody else has it: there is no need to ask and to wait for an answer.
        let (length, nodad) = if address.is_ipv4() { (32, "") } else { (128, " nodad") };
        line(out, format_args!("address add {address}/{length} dev {tunnel}{nodad}"));
    }
    line(out, format_args!("link set {tunnel} up"));
}

/// Keys that are not wanted any more; entries that are new or have another value.
#[expect(clippy::type_complexity, reason = "two lists of a map's entries")]
fn differences<'a, K: Ord, V: PartialEq>(
    seen: &'a BTreeMap<K, V>,
    wanted: &'a BTreeMap<K, V>,
) -> (Vec<(&'a K, &'a V)>, Vec<(&'a K, &'a V)>) {
    let gone = seen.iter().filter(|(key, _)| !wanted.contains_key(key)).collect();
    let new = wanted.iter().filter(|(key, value)| seen.get(key) != Some(value)).collect();
    (gone, new)
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{text}");
}
