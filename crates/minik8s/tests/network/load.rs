//! Requests without a pause, each on a connection of its own, and how many of them failed.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::dns::{A, try_over_udp};
use crate::place::{Place, get, socket};

/// How often a C library asks for a name before it gives up.
const ATTEMPTS: usize = 2;

pub struct Load {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    workers: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    /// A worker for each place and what it asks.
    pub fn start(targets: &[(Place, SocketAddrV4)]) -> Load {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let workers = targets.iter().cloned().map(|(place, to)| {
            let (stop, count) = (stop.clone(), count.clone());
            std::thread::spawn(move || place.inside(|| work(&place.name, to, &stop, &count)))
        });
        Load { workers: workers.collect(), stop, count }
    }

    /// Also somebody who looks the name up before each request.
    pub fn by_name(mut self, place: Place, server: SocketAddrV4, name: &'static str) -> Load {
        let (stop, count) = (self.stop.clone(), self.count.clone());
        self.workers.push(std::thread::spawn(move || {
            let mut failed = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                if let Err(why) = ask_by_name(&place, server, name) {
                    failed.push(format!("{} → {name}: {why}", place.name));
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
            failed
        }));
        self
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

fn work(name: &str, to: SocketAddrV4, stop: &AtomicBool, count: &AtomicU64) -> Vec<String> {
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

fn ask_by_name(place: &Place, server: SocketAddrV4, name: &str) -> Result<(), String> {
    let mut answer = try_over_udp(place, server, name, A);
    for _ in 1..ATTEMPTS {
        answer = answer.or_else(|_| try_over_udp(place, server, name, A));
    }
    let answer = answer.map_err(|error| format!("no answer: {error}"))?;
    let address = answer.records.iter().find_map(|record| record.strip_prefix("A "));
    let address = address.ok_or_else(|| format!("{answer:?}"))?;
    match place.inside(|| get(socket(address, 80), "any", "/")) {
        Ok((200, body)) if !body.is_empty() => Ok(()),
        other => Err(format!("{address}: {other:?}")),
    }
}
