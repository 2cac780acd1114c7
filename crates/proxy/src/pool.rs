//! Connections to backends that wait for the next request.
//!
//! Each worker has its own: connections stay on the thread whose event loop knows them. Nobody reads from an idle
//! connection; whether its backend has closed it is found out when it is taken, and by [`Pool::sweep`].

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::task::Context;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

const IDLE: Duration = Duration::from_secs(30);
/// Per endpoint and worker; what is more is closed.
const MOST_IDLE: usize = 128;

/// A connection that waits.
pub(super) trait Kept {
    fn address(&self) -> SocketAddr;

    /// Whether the next request can be sent.
    fn is_usable(&mut self, cx: &mut Context<'_>) -> bool;
}

#[derive(Debug)]
pub(super) struct Pool<C> {
    idle: Mutex<HashMap<SocketAddr, Vec<(Instant, C)>>>,
    filled: Notify,
}

impl<C> Default for Pool<C> {
    fn default() -> Self {
        Pool { idle: Mutex::default(), filled: Notify::default() }
    }
}

impl<C: Kept> Pool<C> {
    /// The connection used last, as it is the least likely to have been closed.
    pub fn take(&self, address: SocketAddr, cx: &mut Context<'_>) -> Option<C> {
        loop {
            let (_, mut lease) = self.idle.lock().get_mut(&address)?.pop()?;
            if lease.is_usable(cx) {
                return Some(lease);
            }
        }
    }

    pub fn put(&self, lease: C) {
        let mut idle = self.idle.lock();
        if idle.is_empty() {
            self.filled.notify_one();
        }
        let waiting = idle.entry(lease.address()).or_default();
        if waiting.len() < MOST_IDLE {
            waiting.push((Instant::now(), lease));
        }
    }

    /// Closes what has waited long, was closed by its backend, or leads to an endpoint that is none any more.
    pub fn sweep(&self, endpoints: &HashSet<SocketAddr>, cx: &mut Context<'_>) {
        let now = Instant::now();
        let mut closed = Vec::new();
        let mut idle = self.idle.lock();
        idle.retain(|address, waiting| {
            let in_use = endpoints.contains(address);
            let useless = |(since, lease): &mut (Instant, C)| {
                !in_use || now.duration_since(*since) > IDLE || !lease.is_usable(cx)
            };
            closed.extend(waiting.extract_if(.., useless));
            !waiting.is_empty()
        });
        drop(idle);
    }

    /// Waits until there is anything to sweep.
    pub async fn filled(&self) {
        while self.idle.lock().is_empty() {
            self.filled.notified().await;
        }
    }
}
