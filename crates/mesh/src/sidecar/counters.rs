//! What became of connections and requests to the pod. Words are the proxy's own, and policies the agent's: nothing that
//! a client sends is counted under.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::protocol::InboundCount;

pub const MUTUAL_TLS: &str = "mutual_tls";
pub const PLAINTEXT: &str = "plaintext";
/// In the clear, where only TLS is let in.
pub const REFUSED_PLAINTEXT: &str = "refused_plaintext";
/// A handshake that came to nothing: another authority, another name, or no certificate.
pub const REFUSED_HANDSHAKE: &str = "refused_handshake";
/// Before it was known who may come in.
pub const REFUSED_UNTOLD: &str = "refused_untold";
pub const DENIED: &str = "denied";
pub const WOULD_DENY: &str = "would_deny";

#[derive(Debug, Default)]
pub struct Counters {
    counts: Mutex<BTreeMap<(&'static str, String), u64>>,
    touched: Notify,
    open: watch::Sender<u64>,
}

/// A connection to the pod, for as long as this lives.
pub struct Open(std::sync::Arc<Counters>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|count| *count -= 1);
    }
}

impl Counters {
    pub fn count(&self, what: &'static str, policy: &str) {
        *self.counts.lock().entry((what, policy.to_owned())).or_default() += 1;
        self.touched.notify_one();
    }

    pub fn opened(self: &std::sync::Arc<Self>) -> Open {
        self.open.send_modify(|count| *count += 1);
        Open(self.clone())
    }

    /// Connections to the pod.
    pub fn open(&self) -> u64 {
        *self.open.borrow()
    }

    /// Returns when there are not so many connections.
    pub async fn open_differs(&self, from: Option<u64>) {
        // It fails only if nobody could ever change it.
        let _ = self.open.subscribe().wait_for(|count| Some(*count) != from).await;
    }

    /// Returns when something was counted since it last did.
    pub async fn touched(&self) {
        self.touched.notified().await;
    }

    pub fn all(&self) -> Vec<InboundCount> {
        let counts = self.counts.lock();
        let each = counts.iter().map(|((what, policy), count)| InboundCount {
            what: (*what).to_owned(),
            policy: policy.clone(),
            count: *count,
        });
        each.collect()
    }
}
