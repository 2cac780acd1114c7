//! The node's own proxy: Services with rules, for whoever has no proxy of their own (processes of the node, and pods that
//! are not of the mesh), so that weights and expressions hold for everybody.
//!
//! Rules of the node's network lead connections to such a Service's address here, before those that lead to Services
//! would; all other Services stay the kernel's alone. It proves nobody's identity: pods that let in the mesh alone do not
//! let it in. Where a NetworkPolicy could be about a connection, it is left to the kernel, too: from here on it would be
//! the node's own, which policies let pass.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use minik8s_limits::{ClientLimit, Place};
use minik8s_meta::mesh::MeshRouteSpec;
use minik8s_proxy::{Client, LedBy, LedServices, Shared, Worker};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use crate::sidecar::{Accepted, Outbound, Table, Way, is_http2, opaque, original_destination, server_first};

/// Connections of one client, and of all; those of the node itself, its router among them, are counted apart.
const CONNECTIONS: (usize, usize) = (1024, 8192);
/// Out of file descriptors, most likely: that passes.
const PAUSE: Duration = Duration::from_millis(50);

/// What is led to the engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruled {
    /// Addresses and ports of Services.
    pub addresses: BTreeSet<(Ipv4Addr, u16)>,
    /// Clients that are left to the kernel.
    pub spared: BTreeSet<Ipv4Addr>,
}

/// Ends with everything that it serves when it is dropped.
pub struct Engine {
    worker: Arc<Worker<Outbound>>,
    table: String,
    port: u16,
    /// What the kernel has.
    applied: Option<Ruled>,
    _stop: DropGuard,
}

impl Engine {
    /// Listens, and serves nobody yet.
    pub async fn start(instance: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        let port = listener.local_addr()?.port();
        let stop = CancellationToken::new();
        let worker = Worker::start(Arc::new(Shared::<Outbound>::default()), stop.clone());
        tokio::spawn({
            let (worker, stop) = (worker.clone(), stop.clone());
            async move { stop.run_until_cancelled(accept(&listener, &worker)).await }
        });
        Ok(Engine { worker, table: table_of(instance), port, applied: None, _stop: stop.drop_guard() })
    }

    /// A Service is led here only while it is served here: the table has it before the kernel's rules do, and after.
    pub async fn apply(&mut self, routes: &[&MeshRouteSpec], ruled: &Ruled) {
        let known = self.applied.clone().unwrap_or_default();
        let both = Ruled {
            addresses: ruled.addresses.intersection(&known.addresses).copied().collect(),
            spared: ruled.spared.clone(),
        };
        if both != known {
            self.set(&both).await;
        }
        let routes: Vec<MeshRouteSpec> = routes.iter().map(|route| (*route).clone()).collect();
        let table = Table::new(&routes, &[], None, "", &self.worker.shared.table.borrow());
        self.worker.shared.table.send_replace(Arc::new(table));
        if self.applied.as_ref() != Some(ruled) {
            self.set(ruled).await;
        }
    }

    /// What the kernel has.
    pub fn applied(&self) -> Option<&Ruled> {
        self.applied.as_ref()
    }

    async fn set(&mut self, ruled: &Ruled) {
        match nft(&ruleset(&self.table, self.port, ruled)).await {
            Ok(()) => self.applied = Some(ruled.clone()),
            Err(error) => warn!(error, "clients without a proxy do not route by VirtualServices"),
        }
    }

    /// What the kernel leads here, by these routes. Those of the Gateway API come before VirtualServices.
    pub fn led(&self, routes: &[&MeshRouteSpec]) -> LedServices {
        let addresses = self.applied.iter().flat_map(|ruled| &ruled.addresses);
        let by = |address: &SocketAddr| {
            let text = address.to_string();
            let mut of_address = routes.iter().filter(|route| route.addresses.contains(&text));
            match of_address.any(|route| route.gateway.is_some()) {
                true => LedBy::ServiceRoutes,
                false => LedBy::VirtualService,
            }
        };
        let addresses = addresses.map(|(ip, port)| SocketAddr::from((*ip, *port)));
        addresses.map(|address| (address, by(&address))).collect()
    }

    /// What it has counted, as proxies tell theirs.
    pub fn shared(&self) -> Arc<Shared<Outbound>> {
        self.worker.shared.clone()
    }
}

async fn accept(listener: &TcpListener, worker: &Arc<Worker<Outbound>>) {
    let (limit, of_node) =
        (ClientLimit::new(CONNECTIONS.0, CONNECTIONS.1), ClientLimit::new(CONNECTIONS.1, CONNECTIONS.1));
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // What the node itself sends is led here by loopback.
                let is_own = stream.local_addr().is_ok_and(|at| at.ip().is_loopback());
                let limit = if is_own { &of_node } else { &limit };
                if let Some(place) = limit.admit(peer.ip()) {
                    tokio::spawn(serve(stream, peer, worker.clone(), place));
                }
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Whoever was not led here is not served: the port is no address of anything.
async fn serve(stream: TcpStream, peer: SocketAddr, worker: Arc<Worker<Outbound>>, place: Place) {
    let Ok(destination) = original_destination(&stream) else { return };
    let table = worker.shared.table.borrow().clone();
    if !table.knows(destination) {
        return debug!(%peer, %destination, "a connection to nothing that has rules");
    }
    let _ = stream.set_nodelay(true);
    let mut stream = Accepted::from(stream);
    // The Service itself would lead here again.
    let others = |mut targets: Vec<SocketAddr>| {
        targets.retain(|target| *target != destination);
        targets
    };
    let targets = match table.way(destination) {
        Way::Requests | Way::PlainRequests(_) => None,
        Way::UnsaidRequests(targets) => {
            let targets = others(targets);
            let racing = server_first::unless_server_first(stream, &targets, &worker.turns, |_| None);
            let Some(client) = Box::pin(racing).await else { return };
            stream = client;
            None
        }
        Way::GrpcRequests(targets) => (!is_http2(&stream).await).then_some(targets),
        Way::Opaque(targets) => Some(targets),
    };
    match targets {
        None => {
            let client = Client::new(peer, "http").towards(destination).holding(place);
            worker.serve(stream, client).await;
        }
        Some(targets) => {
            opaque::pass(stream, &others(targets), &worker.turns, |_| None).await;
            drop(place);
        }
    }
}

/// The nftables table of a node.
pub fn table_of(instance: &str) -> String {
    format!("minik8s-mesh-{instance}")
}

/// Takes away what a stopped node has left.
pub async fn tear_down(instance: &str) {
    let table = table_of(instance);
    if let Err(error) = nft(&format!("table ip {table}\ndelete table ip {table}\n")).await {
        debug!(error, "the table of the mesh stays");
    }
}

/// Before the rules of Services, which have -100.
fn ruleset(table: &str, port: u16, ruled: &Ruled) -> String {
    let mut text = format!("table ip {table}\ndelete table ip {table}\n");
    if ruled.addresses.is_empty() {
        return text;
    }
    let addresses: Vec<String> = ruled.addresses.iter().map(|(ip, port)| format!("{ip} . {port}")).collect();
    let spared: Vec<String> = ruled.spared.iter().map(Ipv4Addr::to_string).collect();
    let elements = |list: &[String]| match list.is_empty() {
        true => String::new(),
        false => format!(" elements = {{ {} }}", list.join(", ")),
    };
    text += &format!(
        "table ip {table} {{
  set ruled {{ type ipv4_addr . inet_service;{} }}
  set spared {{ type ipv4_addr;{} }}
  chain prerouting {{
    type nat hook prerouting priority -110; policy accept;
    ip saddr @spared return
    ip daddr . tcp dport @ruled redirect to :{port}
  }}
  chain output {{
    type nat hook output priority -110; policy accept;
    ip daddr . tcp dport @ruled redirect to :{port}
  }}
}}
",
        elements(&addresses),
        elements(&spared),
    );
    text
}

async fn nft(text: &str) -> Result<(), String> {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child =
        command.kill_on_drop(true).spawn().map_err(|error| format!("cannot start nft: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Why it ends early, its errors tell.
        let _ = stdin.write_all(text.as_bytes()).await;
    }
    let output = child.wait_with_output().await.map_err(|error| format!("nft: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("nft: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// An address with its port, if it is one of IPv4.
pub fn v4(address: &str) -> Option<(Ipv4Addr, u16)> {
    let address: SocketAddr = address.parse().ok()?;
    match address.ip() {
        IpAddr::V4(ip) => Some((ip, address.port())),
        IpAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_lead_ruled_addresses_here_and_spare_others() {
        let address = v4("10.96.0.5:9080").unwrap();
        let spared = Ipv4Addr::new(10, 244, 0, 7);
        let ruled = Ruled { addresses: [address].into(), spared: [spared].into() };
        let text = ruleset("minik8s-mesh-a1", 40123, &ruled);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
        assert!(at("delete table ip minik8s-mesh-a1") < at("elements = { 10.96.0.5 . 9080 }"));
        assert!(at("elements = { 10.244.0.7 }") < at("ip saddr @spared return"));
        assert!(at("ip saddr @spared return") < at("tcp dport @ruled redirect to :40123"));
        assert_eq!(text.matches("priority -110").count(), 2, "before the rules of Services");
        let none = ruleset("minik8s-mesh-a1", 40123, &Ruled::default());
        assert_eq!(none, "table ip minik8s-mesh-a1\ndelete table ip minik8s-mesh-a1\n", "nothing is left");
        assert_eq!(v4("[::1]:80"), None);
    }
}
