//! Pods that end: before their containers are told to, no node may lead new connections to them.
//!
//! The order of events does it. The API server marks the pod, the EndpointSlice controller marks its endpoints,
//! every node's agent takes them out of its rules and writes the newest version that it has applied into the
//! node's own Lease. The agent of the pod's node waits for its own rules, then for the Leases of all nodes that
//! are alive, then a moment for connections that are open. Nodes write only when a pod ends somewhere, and
//! Leases are watched only while one waits for them: in between it costs nothing. Every wait has a bound.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, Patch, PatchParams};
use minik8s_informer::{Backoff, Caches, ListOptions};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use crate::backends::Backends;
use crate::watches::Objects;

/// A pod (by its UID) that is about to end, and whom to tell that nothing new comes to it any more.
pub type EndingPod = (String, oneshot::Sender<()>);

const NAMESPACE: &str = "kube-node-lease";
/// The version of Services and EndpointSlices that a node's rules have.
const APPLIED: &str = "minik8s.io/endpoints-applied";
/// For all nodes to follow.
const NODES_BOUND: Duration = Duration::from_secs(2);
/// For open connections to end. Servers that take their time do so after their signal.
const CONNECTIONS_BOUND: Duration = Duration::from_millis(700);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const RETRY: Backoff = Backoff::millis(500, 5_000);

pub struct Drains {
    caches: Arc<Caches>,
    node: String,
    waiting: Vec<EndingPod>,
    /// What the Lease is to say.
    applied: watch::Sender<Option<u64>>,
    _writer: AbortOnDropHandle<()>,
}

impl Drains {
    pub fn new(client: kube::Client, caches: Arc<Caches>, node: &str) -> Self {
        let (applied, versions) = watch::channel(None);
        let writer = AbortOnDropHandle::new(tokio::spawn(write(client, node.to_owned(), versions)));
        Drains { caches, node: node.to_owned(), waiting: Vec::new(), applied, _writer: writer }
    }

    pub fn add(&mut self, pod: EndingPod) {
        self.waiting.push(pod);
    }

    /// The kernel has the rules of all that was seen.
    pub fn rules_applied(&mut self, backends: &mut Backends) {
        let version = backends.version();
        // The first time tells the others that this node is to be waited for.
        if backends.take_sees_end() || self.applied.borrow().is_none() {
            self.applied.send_replace(Some(version));
        }
        for (pod, done) in std::mem::take(&mut self.waiting) {
            if done.is_closed() {
                continue;
            }
            if backends.is_ready(&pod) {
                self.waiting.push((pod, done));
                continue;
            }
            let addresses = backends.addresses(&pod);
            if addresses.is_empty() {
                // No Service ever led to it.
                let _ = done.send(());
                continue;
            }
            let (caches, node) = (self.caches.clone(), self.node.clone());
            tokio::spawn(async move {
                if timeout(NODES_BOUND, others_follow(&caches, &node, version)).await.is_err() {
                    warn!("not all nodes have said in time that they lead no connections to pod {pod}");
                }
                let _ = timeout(CONNECTIONS_BOUND, connections_end(&addresses)).await;
                let _ = done.send(());
            });
        }
    }
}

/// Writes the newest version into the node's Lease; those in between do not matter.
async fn write(client: kube::Client, node: String, mut versions: watch::Receiver<Option<u64>>) {
    let api: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let mut retries = RETRY.retries();
    loop {
        let version = *versions.borrow_and_update();
        if let Some(version) = version {
            let patch = json!({"metadata": {"annotations": {APPLIED: version.to_string()}}});
            if let Err(error) = api.patch(&node, &PatchParams::default(), &Patch::Merge(patch)).await {
                // A new node has no Lease for a moment.
                debug!(%error, "cannot tell others which rules this node has");
                sleep(retries.failed()).await;
                continue;
            }
            retries.succeeded();
        }
        if versions.changed().await.is_err() {
            return;
        }
    }
}

/// Returns when all nodes that are alive have applied that version.
async fn others_follow(caches: &Caches, own: &str, version: u64) {
    let informer = caches.informer(ListOptions::default().within(NAMESPACE));
    let mut changes = informer.subscribe();
    let mut leases = Objects::<Lease>::default();
    loop {
        leases.take(changes.next().await);
        let mut others = leases.iter().filter(|lease| lease.metadata.name.as_deref() != Some(own));
        if leases.is_complete() && !others.any(|lease| is_behind(lease, version, Timestamp::now())) {
            return;
        }
    }
}

/// A node that is dead leads nothing anywhere, and one without the annotation has no rules of ours.
fn is_behind(lease: &Lease, version: u64, now: Timestamp) -> bool {
    let applied = lease.metadata.annotations.as_ref().and_then(|all| all.get(APPLIED));
    let Some(applied) = applied.and_then(|text| text.parse::<u64>().ok()) else { return false };
    let spec = lease.spec.as_ref();
    let lasts = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
    let renewed = spec.and_then(|spec| spec.renew_time.as_ref()).map_or(Timestamp::MIN, |time| time.0);
    let is_alive = now.duration_since(renewed) <= SignedDuration::from_secs(lasts.into());
    is_alive && applied < version
}

/// Returns when no TCP connection to these addresses is open, as far as the kernel of their node can tell.
async fn connections_end(addresses: &BTreeSet<String>) {
    for address in addresses {
        loop {
            let mut command = Command::new("conntrack");
            let family = if address.contains(':') { "ipv6" } else { "ipv4" };
            command.args(["-L", "-f", family, "-p", "tcp", "--state", "ESTABLISHED", "--reply-src", address]);
            command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
            match command.output().await {
                Ok(output) if output.status.success() && !output.stdout.is_empty() => sleep(LOOK_AGAIN).await,
                _ => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_waited_for() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let check = |applied: serde_json::Value, renewed: &str, expected: bool| {
            let lease: Lease = serde_json::from_value(json!({
                "metadata": {"name": "b", "annotations": {APPLIED: applied}},
                "spec": {"renewTime": renewed, "leaseDurationSeconds": 40},
            }))
            .unwrap();
            assert_eq!(is_behind(&lease, 100, now), expected, "{lease:?}");
        };
        let (fresh, old) = ("2026-01-01T00:00:50.000000Z", "2026-01-01T00:00:10.000000Z");
        check(json!("99"), fresh, true);
        check(json!("100"), fresh, false);
        check(json!("99"), old, false);
        check(json!("nonsense"), fresh, false);
        assert!(!is_behind(&Lease::default(), 100, now));
    }
}
