//! Life and death of nodes: a node that falls silent is marked, tainted, and after a while its pods are
//! replaced elsewhere.
//!
//! Silence is measured by our own clock since the node was last heard (its lease or status changed), so
//! clocks of different machines are never compared. Nor does silence count in which nobody could be heard because
//! the store took no writes. If no node at all is heard, the fault is more likely ours, and nobody is evicted.

mod conditions;
mod eviction;
mod plan;
mod taints;

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};
use parking_lot::Mutex;

use crate::pods::node_name;

/// After this long without a sign of life a node counts as unreachable, unless told otherwise.
pub const DEFAULT_GRACE: SignedDuration = SignedDuration::from_secs(40);
const LEASES: &str = "kube-node-lease";

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
/// When the store last refused a write, if it ever did.
pub type Trouble = Arc<dyn Fn() -> Option<Timestamp> + Send + Sync>;

pub struct NodeLifecycle {
    /// When each node was last heard.
    heard: Arc<Mutex<HashMap<String, Timestamp>>>,
    clock: Clock,
    trouble: Trouble,
    grace: SignedDuration,
}

impl NodeLifecycle {
    pub fn new(clock: Clock, trouble: Trouble, grace: SignedDuration) -> Self {
        NodeLifecycle { heard: Arc::default(), clock, trouble, grace }
    }
}

pub struct Observed {
    node: Arc<Node>,
    heard: Timestamp,
    /// How long it may be silent.
    grace: SignedDuration,
    /// How long the node's lease lasts, if it has one.
    lease: Option<SignedDuration>,
    /// Somebody in the cluster was heard lately.
    anybody_heard: bool,
    /// Only filled if something is wrong with the node.
    pods: Vec<Arc<Pod>>,
}

impl Controller for NodeLifecycle {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "node-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        let (heard, clock) = (self.heard.clone(), self.clock.clone());
        watches.on_change::<Node>(move |old, new| {
            let Some(node) = new.or(old) else { return Vec::new() };
            let name = key_of(node).name;
            if new.is_none() {
                heard.lock().remove(&name);
            } else if old.map(conditions::heartbeat) != new.map(conditions::heartbeat) {
                heard.lock().insert(name, clock());
            }
            vec![key_of(node)]
        });
        let (heard, clock) = (self.heard.clone(), self.clock.clone());
        // A renewed lease is no reason to look: the timer that waits for its end looks.
        watches.on_change::<Lease>(move |_, new| {
            let lease = new.filter(|lease| lease.metadata.namespace.as_deref() == Some(LEASES));
            if let Some(lease) = lease {
                heard.lock().insert(key_of(lease).name, clock());
            }
            Vec::new()
        });
        watches.on_change::<Pod>(|old, new| {
            // A pod that comes to a node with taints must be looked at.
            let node = new.and_then(node_name).filter(|node| old.and_then(node_name) != Some(*node));
            node.map(|node| Key::new("", node)).into_iter().collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let node = caches.of::<Node>().get(key)?;
        let lease = caches.of::<Lease>().get(&Key::new(LEASES, &*key.name));
        let lasts = lease.and_then(|lease| lease.spec.as_ref()?.lease_duration_seconds);
        let now = (self.clock)();
        let heard = self.heard.lock();
        let heard_at = heard.get(&key.name).copied().unwrap_or(now);
        let heard_at = (self.trouble)().map_or(heard_at, |trouble| trouble.max(heard_at));
        let lease = lasts.map(|seconds| SignedDuration::from_secs(i64::from(seconds)));
        // A node that has not heard of a shorter grace yet says so by its lease.
        let grace = lease.unwrap_or_default().min(DEFAULT_GRACE).max(self.grace);
        let is_silent = now.duration_since(heard_at) >= grace;
        let anybody_heard = heard.values().any(|at| now.duration_since(*at) < self.grace);
        drop(heard);
        let is_fine = conditions::is_ready(&node) && !is_silent && !taints::has_no_execute(&node);
        let on_node = |pod: &Arc<Pod>| node_name(pod) == Some(&key.name);
        let pods = match is_fine {
            true => Vec::new(),
            false => caches.of::<Pod>().list().into_iter().filter(on_node).collect(),
        };
        Some(Observed { node, heard: heard_at, grace, lease, anybody_heard, pods })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

#[cfg(test)]
mod tests;
