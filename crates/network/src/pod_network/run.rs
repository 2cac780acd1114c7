//! Keeps this node's links in step with the Node objects and with what happens to its interfaces.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use minik8s_informer::{Backoff, Informer};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::link_events::LinkEvents;
use super::{Kernel, KernelError, Me, Owner, Peer, changes, peers, plan};
use crate::Config;
use crate::reports::Reports;
use crate::watches::Objects;

/// Events come in groups.
const GATHER: Duration = Duration::from_millis(20);
/// After the kernel refused something.
const RETRY: Backoff = Backoff::millis(500, 2_000);

/// Never returns; the links stay when it is dropped.
pub async fn follow(config: &Config, informer: Arc<Informer<Node>>, reports: &Reports) {
    let mut changes = informer.subscribe();
    let mut nodes = Objects::<Node>::default();
    let mut retries = RETRY.retries();
    let mut network = PodNetwork::new(config, reports);
    let mut link_events = LinkEvents::open()
        .inspect_err(|error| warn!(%error, "links that others remove are noticed only when a node changes"))
        .ok();
    let mut known: Option<Vec<Peer>> = None;
    let mut due: Option<Instant> = None;
    loop {
        tokio::select! {
            change = changes.next() => {
                nodes.take(change);
                // Half of the nodes would take away routes that a former run of this agent rightly made;
                // most changes are heartbeats.
                let now = nodes.is_complete().then(|| peers(nodes.iter()));
                if now.is_some() && now != known {
                    known = now;
                    due.get_or_insert_with(|| Instant::now() + GATHER);
                }
            }
            () = next(&mut link_events, &network.interfaces) => {
                if known.is_some() {
                    due.get_or_insert_with(|| Instant::now() + GATHER);
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                due = None;
                match network.update(known.as_deref().unwrap_or_default()).await {
                    Ok(()) => retries.succeeded(),
                    Err(error) => {
                        let message = format!("pods cannot reach those of other nodes: {error}; it is tried again");
                        reports.about_node("PodNetworkFailed", message);
                        due = Some(Instant::now() + retries.failed());
                    }
                }
            }
        }
    }
}

async fn next(link_events: &mut Option<LinkEvents>, interfaces: &[u32]) {
    match link_events {
        Some(link_events) => link_events.next(interfaces).await,
        None => std::future::pending().await,
    }
}

struct PodNetwork<'a> {
    config: &'a Config,
    reports: &'a Reports,
    kernel: Kernel,
    owner: Owner,
    /// Those whose changes matter.
    interfaces: Vec<u32>,
}

impl<'a> PodNetwork<'a> {
    fn new(config: &'a Config, reports: &'a Reports) -> Self {
        PodNetwork {
            config,
            reports,
            kernel: Kernel::default(),
            owner: Owner::of(&config.instance),
            interfaces: Vec::new(),
        }
    }

    async fn update(&mut self, peers: &[Peer]) -> Result<(), KernelError> {
        // Without a range of its own the node has no pods that could reach anybody.
        if !peers.iter().any(|peer| peer.name == self.config.node_name) {
            return Ok(());
        }
        // Alone there is nothing to do, and a node may well have no network.
        let seen = self.kernel.links(&self.owner).await?;
        let alone = peers.iter().all(|peer| peer.name == self.config.node_name);
        if alone && seen == super::Links::default() {
            return Ok(());
        }
        let mut uplinks = Vec::new();
        for address in &self.config.node_ips {
            uplinks.push(self.kernel.uplink(*address).await?);
        }
        let me = Me {
            name: self.config.node_name.clone(),
            uplinks,
            cluster: self.config.cluster_cidr,
            backend: self.config.backend,
            tunnel: self.owner.tunnel.clone(),
        };
        let plan = plan(peers, &me);
        let changes = changes(&seen, &plan.links, &self.owner);
        if !changes.is_empty() {
            self.kernel.apply(&changes).await?;
            info!(nodes = plan.links.routes.len(), "changed the routes to other nodes' pods");
        }
        for (node, problem) in &plan.problems {
            let message = format!("pods of this node cannot reach those of node {node}: {problem}");
            self.reports.about_node("NodeUnreachable", message);
        }
        let all = self.kernel.interfaces().await?;
        let ours = all.iter().filter(|one| {
            one.ifname == self.owner.tunnel || me.uplinks.iter().any(|uplink| uplink.device == one.ifname)
        });
        self.interfaces = ours.map(|one| one.ifindex).collect();
        Ok(())
    }
}
