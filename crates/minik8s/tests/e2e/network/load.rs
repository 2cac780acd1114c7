//! Requests without a pause, each on a connection of its own, and how many of them failed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::place::{Place, get};

pub struct Load {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    workers: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    /// A worker for each place and what it asks.
    pub fn start(targets: &[(Place, SocketAddr)]) -> Load {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let workers = targets.iter().cloned().map(|(place, to)| {
            let (stop, count) = (stop.clone(), count.clone());
            std::thread::spawn(move || place.inside(|| work(&place.name, to, &stop, &count)))
        });
        Load { workers: workers.collect(), stop, count }
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How many requests there were, and what went wrong with those that failed.
    pub fn end(self) -> (u64, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        (self.count.load(Ordering::Relaxed), failed)
    }
}

fn work(name: &str, to: SocketAddr, stop: &AtomicBool, count: &AtomicU64) -> Vec<String> {
    let mut failed = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match get(to, "any", "/") {
            Ok((200, body)) if !body.is_empty() => {}
            other => failed
                .push(format!("{name} → {to} after {} requests: {other:?}", count.load(Ordering::Relaxed))),
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
    failed
}
