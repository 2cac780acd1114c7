//! Pods send from their own addresses only: each port of the node's bridge takes packets of its pod alone.
//!
//! A process with raw sockets, which most pods may have, could otherwise answer in a name server's place, take over a
//! neighbour's connections or evade rules by address. Ports are told by the kubelet once a pod's sandbox is there and
//! before anything of the pod runs, and whoever enforces NetworkPolicies is told of the pod's addresses. The rules are in a
//! table of the bridge family; its sets outlive the agent, and ports that are gone are taken out of them when the kernel says
//! that they are. Ports that nobody told of are left alone.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::config::table_of;
use crate::pod_network::LinkEvents;
use crate::policy::PodAddresses;
use crate::proxy::Nft;

/// The interface on the node, and what the pod behind it may send from: its hardware address and its addresses.
pub type PodPort = (String, String, Vec<IpAddr>);
/// Namespace and name of a pod that is about to start, its port, and whom to tell that the port is guarded, or why not.
pub type PortRequest = (Option<(String, String)>, PodPort, oneshot::Sender<Result<(), String>>);

/// Ports that go together are taken out together.
const SETTLE: Duration = Duration::from_secs(1);

/// Guards ports until nobody asks any more; the rules stay. Whether pods have IPv6 addresses is the cluster's to say.
pub async fn guard_ports(
    (instance, has_v6): (String, bool),
    requests: &mut mpsc::Receiver<PortRequest>,
    policies: mpsc::Sender<PodAddresses>,
) {
    let table = table_of(&instance);
    let mut links = LinkEvents::open()
        .inspect_err(|error| warn!(%error, "ports of pods that are gone are forgotten at the next start"))
        .ok();
    // At once: ports may have gone while nobody looked.
    let mut prune_at = Some(Instant::now());
    // Guarded by this agent. Only as long as it hears of those that go.
    let mut known = HashSet::new();
    loop {
        tokio::select! {
            request = requests.recv() => {
                let Some((pod, port, done)) = request else { return };
                let (addresses, policies) = (port.2.clone(), policies.clone());
                // Pods do not wait for each other.
                let answer = move |guarded: Result<(), String>| tokio::spawn(async move {
                    let enforced = match pod {
                        Some(pod) => enforce(&policies, pod, addresses).await,
                        None => Ok(()),
                    };
                    let _ = done.send(guarded.and(enforced));
                });
                let rules = rules(&table, has_v6) + &elements(&table, &port);
                let guard = async { Nft.apply(&rules).await.map_err(|error| error.to_string()) };
                // A slot's port was guarded when the slot was made: its pod does not wait for that to be done again.
                let guarded = match known.remove(&port) {
                    true => {
                        answer(Ok(()));
                        guard.await.inspect_err(|error| warn!(port = port.0, "cannot guard it again: {error}"))
                    }
                    false => {
                        let guarded = guard.await;
                        answer(guarded.clone());
                        guarded
                    }
                };
                if guarded.is_ok() && links.is_some() {
                    known.insert(port);
                }
            }
            () = removed(&mut links) => {
                prune_at.get_or_insert_with(|| Instant::now() + SETTLE);
            }
            () = sleep_until(prune_at.unwrap_or_else(Instant::now)), if prune_at.is_some() => {
                prune_at = None;
                prune(&table).await;
                known.retain(|(device, ..): &PodPort| is_there(device));
            }
        }
    }
}

/// Returns when the policies of the pod are in force.
async fn enforce(
    policies: &mpsc::Sender<PodAddresses>,
    pod: (String, String),
    addresses: Vec<IpAddr>,
) -> Result<(), String> {
    let (done, enforced) = oneshot::channel();
    let ended = |_| "whoever enforces NetworkPolicies has ended".to_owned();
    policies.send((pod, addresses, done)).await.map_err(|_| ended(()))?;
    enforced.await.map_err(|_| ended(()))
}

async fn removed(links: &mut Option<LinkEvents>) {
    match links {
        Some(links) => links.removed().await,
        None => std::future::pending().await,
    }
}

/// Removes the rules of a stopped agent; where there are none it does nothing.
pub(crate) async fn clear(instance: &str) {
    let table = table_of(instance);
    if let Err(error) = Nft.apply(&format!("table bridge {table}\ndelete table bridge {table}\n")).await {
        warn!("cannot remove the rules of pods' ports: {error}");
    }
}

/// The table with its rules; what is in its sets stays.
pub fn rules(table: &str, has_v6: bool) -> String {
    let (sets, v6) = match has_v6 {
        true => (V6_SETS, V6_RULES),
        false => ("", NO_V6_RULES),
    };
    format!(
        "table bridge {table} {{
  set ports {{ type ifname; }}
  set macs {{ type ifname . ether_addr; }}
  set addresses {{ type ifname . ipv4_addr; }}
{sets}  chain sources {{ type filter hook prerouting priority -300; policy accept; }}
}}
flush chain bridge {table} sources
table bridge {table} {{
  chain sources {{
    iifname != @ports accept
    iifname . ether saddr != @macs drop
    ether type ip iifname . ip saddr @addresses accept
    ether type arp iifname . arp saddr ip @addresses accept
    icmpv6 type nd-router-advert drop
{v6}    drop
  }}
}}
"
    )
}

/// Where pods have no IPv6 addresses neighbours may ask for each other and no more: every interface has an address of its
/// link, by which pods would reach each other past NetworkPolicies.
const NO_V6_RULES: &str = "    ip6 saddr { ::, fe80::/10 } icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, mld-listener-report, mld2-listener-report } accept\n";

/// What neighbour advertisements may be about stands apart, as a number: nft has no name for that part of the packet.
const V6_SETS: &str = "  set addresses6 { type ifname . ipv6_addr; }
  set targets6 { typeof iifname . @th,64,128; }
";

/// Nobody advertises a neighbour's address, which is what a forged ARP answer is in IPv4. Addresses of the link are for
/// finding neighbours alone, as is what goes to groups: neither is known to NetworkPolicies.
const V6_RULES: &str = "    icmpv6 type nd-redirect drop
    icmpv6 type nd-neighbor-advert iifname . @th,64,128 != @targets6 drop
    ip6 saddr { ::, fe80::/10 } icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, mld-listener-report, mld2-listener-report } accept
    iifname . ip6 saddr @addresses6 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
    ip6 daddr { fe80::/10, ff00::/8 } drop
    iifname . ip6 saddr @addresses6 accept
";

/// What makes a port guarded.
pub fn elements(table: &str, (device, mac, addresses): &PodPort) -> String {
    let mut text = format!(
        "add element bridge {table} ports {{ \"{device}\" }}\n\
         add element bridge {table} macs {{ \"{device}\" . {mac} }}\n"
    );
    for address in addresses {
        match address {
            IpAddr::V4(address) => {
                text += &format!("add element bridge {table} addresses {{ \"{device}\" . {address} }}\n");
            }
            IpAddr::V6(address) => {
                let number = address.to_bits();
                text += &format!(
                    "add element bridge {table} addresses6 {{ \"{device}\" . {address} }}\n\
                     add element bridge {table} targets6 {{ \"{device}\" . {number:#034x} }}\n"
                );
            }
        }
    }
    text
}

async fn prune(table: &str) {
    let mut list = Command::new("nft");
    list.args(["-j", "list", "table", "bridge", table]).stdin(Stdio::null()).stderr(Stdio::null());
    let listed = match list.kill_on_drop(true).output().await {
        Ok(output) if output.status.success() => serde_json::from_slice(&output.stdout).unwrap_or_default(),
        _ => return,
    };
    let stale = stale_elements(table, &listed, is_there);
    if !stale.is_empty()
        && let Err(error) = Nft.apply(&stale).await
    {
        warn!("cannot forget ports of pods that are gone: {error}");
    }
}

fn is_there(device: &str) -> bool {
    Path::new("/sys/class/net").join(device).exists()
}

/// What takes ports that are not there any more out of the sets.
fn stale_elements(table: &str, listed: &Value, is_there: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    let objects = listed["nftables"].as_array().into_iter().flatten();
    for set in objects.map(|object| &object["set"]) {
        let Some(name) = set["name"].as_str() else { continue };
        for element in set["elem"].as_array().into_iter().flatten() {
            let parts: Vec<&str> = match element["concat"].as_array() {
                Some(parts) => parts.iter().filter_map(Value::as_str).collect(),
                None => element.as_str().into_iter().collect(),
            };
            let Some((device, rest)) = parts.split_first().filter(|(device, _)| !is_there(device)) else {
                continue;
            };
            let rest: String = rest.iter().map(|part| format!(" . {part}")).collect();
            text += &format!("delete element bridge {table} {name} {{ \"{device}\"{rest} }}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_that_are_gone_are_forgotten() {
        let listed = json!({"nftables": [
            {"metainfo": {}},
            {"set": {"name": "ports", "elem": ["veth1", "veth2"]}},
            {"set": {"name": "macs", "elem": [{"concat": ["veth1", "0a:00:00:00:00:01"]}]}},
            {"set": {"name": "addresses", "elem": [
                {"concat": ["veth1", "10.0.0.1"]}, {"concat": ["veth2", "10.0.0.2"]}]}},
            {"set": {"name": "empty"}},
        ]});
        let expected = "delete element bridge t ports { \"veth1\" }\n\
                        delete element bridge t macs { \"veth1\" . 0a:00:00:00:00:01 }\n\
                        delete element bridge t addresses { \"veth1\" . 10.0.0.1 }\n";
        assert_eq!(stale_elements("t", &listed, |device| device == "veth2"), expected);
        assert_eq!(stale_elements("t", &listed, |_| true), "");
        assert_eq!(stale_elements("t", &json!(null), |_| false), "");
    }
}
