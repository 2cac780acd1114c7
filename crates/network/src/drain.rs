//! Pods that end: before their containers are told to, no node may lead new connections to them.
//!
//! The order of events does it. The API server marks the pod, the EndpointSlice controller marks its endpoints,
//! every node's agent takes them out of its rules and writes the newest version that it has applied into the
//! node's own Lease. The agent of the pod's node waits for its own rules, then for the Leases of all nodes that
//! are alive, then a moment for connections that are open. Proxies of the mesh choose endpoints themselves, so they are
//! waited for in the same way: the node's own, then those of nodes whose Leases say which version their proxies have
//! applied. Nodes write only when a pod ends somewhere, and Leases are watched only while one waits for them: in
//! between it costs nothing. Every wait has a bound.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, Patch, PatchParams};
use minik8s_informer::{Backoff, Caches, ListOptions};
use minik8s_meta::mesh::MeshRouted;
use serde_json::{Value, json};
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
/// The version of what a node's proxies are told that all of them route by.
const MESH_APPLIED: &str = "minik8s.io/mesh-applied";
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
    mesh: watch::Receiver<MeshRouted>,
    applied: watch::Sender<Applied>,
    _writer: AbortOnDropHandle<()>,
}

/// What the Lease is to say. `None`: nothing yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Applied {
    endpoints: Option<u64>,
    mesh: Option<u64>,
}

impl Drains {
    pub fn new(
        client: kube::Client,
        caches: Arc<Caches>,
        node: &str,
        mesh: watch::Receiver<MeshRouted>,
    ) -> Self {
        let (applied, versions) = watch::channel(Applied::default());
        let writer = AbortOnDropHandle::new(tokio::spawn(write(client, node.to_owned(), versions)));
        Drains { caches, node: node.to_owned(), waiting: Vec::new(), mesh, applied, _writer: writer }
    }

    pub fn add(&mut self, pod: EndingPod) {
        self.waiting.push(pod);
    }

    /// Returns when the node's proxies route by something newer, and others are told. Nothing is lost if it is not waited
    /// for to the end.
    pub async fn proxies_applied(&mut self) {
        if self.mesh.changed().await.is_err() {
            return std::future::pending().await;
        }
        let told = self.applied.borrow().mesh;
        let news = to_tell(told, &self.mesh.borrow());
        if news.is_some() {
            self.applied.send_modify(|applied| applied.mesh = news);
        }
    }

    /// The kernel has the rules of all that was seen.
    pub fn rules_applied(&mut self, backends: &mut Backends) {
        let version = backends.version();
        // The first time tells the others that this node is to be waited for.
        if backends.take_sees_end() || self.applied.borrow().endpoints.is_none() {
            self.applied.send_modify(|applied| applied.endpoints = Some(version));
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
            // If nobody else is ready, proxies go on with those that end.
            let has_proxies = self.mesh.borrow().applied.is_some() && backends.has_others(&pod);
            let mesh = has_proxies.then(|| self.mesh.clone());
            let (caches, node) = (self.caches.clone(), self.node.clone());
            tokio::spawn(async move {
                let nodes = timeout(NODES_BOUND, others_follow(&caches, &node, (APPLIED, version)));
                let proxies = async {
                    let Some(mesh) = mesh else { return Ok(()) };
                    timeout(NODES_BOUND, proxies_follow(mesh, &caches, &node, &addresses)).await
                };
                let (nodes, proxies) = tokio::join!(nodes, proxies);
                if nodes.is_err() {
                    warn!("not all nodes have said in time that they lead no connections to pod {pod}");
                }
                if proxies.is_err() {
                    warn!("not all proxies of the mesh have left pod {pod} in time");
                }
                let _ = timeout(CONNECTIONS_BOUND, connections_end(&addresses)).await;
                let _ = done.send(());
            });
        }
    }
}

/// What others are to know of this node's proxies: the first time, that they are to be waited for; then whatever somebody
/// may wait for, since a pod gets no more requests.
fn to_tell(told: Option<u64>, routed: &MeshRouted) -> Option<u64> {
    let newest = routed.newest_left();
    let applied = routed.applied.filter(|applied| *applied >= newest)?;
    told.is_none_or(|told| told < newest).then_some(applied)
}

/// Writes the newest versions into the node's Lease; those in between do not matter.
async fn write(client: kube::Client, node: String, mut versions: watch::Receiver<Applied>) {
    let api: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let mut retries = RETRY.retries();
    loop {
        let applied = *versions.borrow_and_update();
        if applied != Applied::default() {
            let patch = json!({"metadata": {"annotations": annotations(applied)}});
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

/// What a former agent's proxies had applied says nothing about this one's.
fn annotations(applied: Applied) -> Value {
    let mut annotations = json!({MESH_APPLIED: applied.mesh.map(|version| version.to_string())});
    if let Some(version) = applied.endpoints {
        annotations[APPLIED] = json!(version.to_string());
    }
    annotations
}

/// Returns when no proxy leads requests to these addresses any more: first of this node, which knows since which version.
async fn proxies_follow(
    mut mesh: watch::Receiver<MeshRouted>,
    caches: &Caches,
    own: &str,
    addresses: &BTreeSet<String>,
) {
    let addresses: Vec<IpAddr> = addresses.iter().filter_map(|address| address.parse().ok()).collect();
    let has_left = |routed: &MeshRouted| routed.left_since(&addresses).is_some();
    let left = mesh.wait_for(has_left).await.ok().and_then(|routed| routed.left_since(&addresses));
    if let Some(version) = left {
        others_follow(caches, own, (MESH_APPLIED, version)).await;
    }
}

/// Returns when all nodes that are alive have applied that version, as an annotation says.
async fn others_follow(caches: &Caches, own: &str, (annotation, version): (&str, u64)) {
    let informer = caches.informer(ListOptions::default().within(NAMESPACE));
    let mut changes = informer.subscribe();
    let mut leases = Objects::<Lease>::default();
    loop {
        leases.take(changes.next().await);
        let mut others = leases.iter().filter(|lease| lease.metadata.name.as_deref() != Some(own));
        if leases.is_complete()
            && !others.any(|lease| is_behind(lease, (annotation, version), Timestamp::now()))
        {
            return;
        }
    }
}

/// A node that is dead leads nothing anywhere, and one without the annotation has no rules of ours.
fn is_behind(lease: &Lease, (annotation, version): (&str, u64), now: Timestamp) -> bool {
    let applied = lease.metadata.annotations.as_ref().and_then(|all| all.get(annotation));
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
            assert_eq!(is_behind(&lease, (APPLIED, 100), now), expected, "{lease:?}");
            assert!(!is_behind(&lease, (MESH_APPLIED, 100), now), "it has no proxies");
        };
        let (fresh, old) = ("2026-01-01T00:00:50.000000Z", "2026-01-01T00:00:10.000000Z");
        check(json!("99"), fresh, true);
        check(json!("100"), fresh, false);
        check(json!("99"), old, false);
        check(json!("nonsense"), fresh, false);
        assert!(!is_behind(&Lease::default(), (APPLIED, 100), now));
    }

    #[test]
    fn lease_says_nothing_of_proxies_until_they_have_applied_something() {
        let check = |endpoints: Option<u64>, mesh: Option<u64>, expected: Value| {
            assert_eq!(annotations(Applied { endpoints, mesh }), expected);
        };
        // What a former agent wrote goes.
        check(Some(7), None, json!({APPLIED: "7", MESH_APPLIED: null}));
        check(Some(7), Some(9), json!({APPLIED: "7", MESH_APPLIED: "9"}));
        check(None, Some(9), json!({MESH_APPLIED: "9"}));
    }

    #[test]
    fn others_are_told_when_a_pod_gets_no_more_requests() {
        let check = |told: Option<u64>, left: Option<u64>, applied: Option<u64>, expected: Option<u64>| {
            let left = left.map(|version| (IpAddr::from([10, 0, 0, 1]), version)).into_iter().collect();
            let routed = MeshRouted { left: Arc::new(left), applied, ..MeshRouted::default() };
            assert_eq!(to_tell(told, &routed), expected, "{told:?} {routed:?}");
        };
        check(None, None, None, None);
        check(None, None, Some(5), Some(5));
        check(Some(5), None, Some(6), None);
        check(Some(5), Some(8), Some(7), None);
        check(Some(5), Some(8), Some(9), Some(9));
        check(Some(9), Some(8), Some(10), None);
    }
}
