//! Somebody who looks a name up before each request, as programs with a C library do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::dns::{A, try_over_udp};
use super::place::{Place, get, socket};

/// How often a C library asks for a name before it gives up.
const ATTEMPTS: usize = 2;

pub struct Lookups {
    stop: Arc<AtomicBool>,
    worker: JoinHandle<(u64, Vec<String>)>,
}

impl Lookups {
    pub fn start(place: Place, server: SocketAddr, name: &'static str) -> Lookups {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let worker = std::thread::spawn(move || {
            let (mut count, mut failed) = (0, Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                failed.extend(ask(&place, server, name).err());
                count += 1;
            }
            (count, failed)
        });
        Lookups { stop, worker }
    }

    /// How many requests there were, and what went wrong with those that failed.
    pub fn end(self) -> (u64, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        self.worker.join().unwrap()
    }
}

fn ask(place: &Place, server: SocketAddr, name: &str) -> Result<(), String> {
    let mut answer = try_over_udp(place, server, name, A);
    for _ in 1..ATTEMPTS {
        answer = answer.or_else(|_| try_over_udp(place, server, name, A));
    }
    let answer = answer.map_err(|error| format!("no answer about {name}: {error}"))?;
    let address = answer.records.iter().find_map(|record| record.strip_prefix("A "));
    let address = address.ok_or_else(|| format!("{name}: {answer:?}"))?;
    match place.inside(|| get(socket(address, 80), "any", "/")) {
        Ok((200, body)) if !body.is_empty() => Ok(()),
        other => Err(format!("{name} at {address}: {other:?}")),
    }
}
