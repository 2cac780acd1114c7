//! Bodies on their way: how many of a user and of a connection, and how much memory they hold in all.
//!
//! Bytes are counted as they come and until the request is answered, so that what waits for a seat counts too. A body
//! that does not fit is refused while it is small; nobody waits here, because who sends slowly would be waited for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Flow, Level, too_many};
use crate::error::Result;

const MIB: usize = 1024 * 1024;
/// All bodies together.
const BYTES: usize = 128 * MIB;
/// Those of users who are neither nodes nor administrators.
const ORDINARY_BYTES: usize = 64 * MIB;
const BYTES_PER_USER: usize = 32 * MIB;
/// Bodies of one such user that have begun and not ended.
const BODIES_PER_USER: usize = 100;
const BODIES_PER_CONNECTION: usize = 200;

/// Put into each request of a connection: how many of its bodies are on their way.
#[derive(Clone, Default)]
pub struct Connection(Arc<AtomicUsize>);

#[derive(Default)]
pub struct Arrivals(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    bytes: usize,
    ordinary_bytes: usize,
    users: HashMap<Flow, Share>,
}

#[derive(Default)]
struct Share {
    /// On their way.
    bodies: usize,
    /// All, with those that wait or are worked on.
    requests: usize,
    bytes: usize,
}

/// One body. What it holds is given back when it is dropped.
pub struct Arrival {
    arrivals: Arc<Arrivals>,
    flow: Flow,
    connection: Option<Connection>,
    is_whole: bool,
    bytes: usize,
}

impl Arrivals {
    pub fn begin(self: &Arc<Self>, flow: &Flow, connection: Option<Connection>) -> Result<Arrival> {
        let is_full = |connection: &Connection| connection.0.load(Ordering::Relaxed) >= BODIES_PER_CONNECTION;
        if connection.as_ref().is_some_and(is_full) || !self.0.lock().begin(flow) {
            return Err(too_many());
        }
        if let Some(Connection(bodies)) = &connection {
            bodies.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Arrival { arrivals: self.clone(), flow: flow.clone(), connection, is_whole: false, bytes: 0 })
    }
}

impl Arrival {
    /// Makes room for more of the body.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        if !self.arrivals.0.lock().grow(&self.flow, bytes) {
            return Err(too_many());
        }
        self.bytes += bytes;
        Ok(())
    }

    /// All of it is there.
    pub fn finish(&mut self) {
        if std::mem::replace(&mut self.is_whole, true) {
            return;
        }
        if let Some(Connection(bodies)) = &self.connection {
            bodies.fetch_sub(1, Ordering::Relaxed);
        }
        self.arrivals.0.lock().finish(&self.flow);
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.finish();
        self.arrivals.0.lock().release(&self.flow, self.bytes);
    }
}

impl Counts {
    fn begin(&mut self, flow: &Flow) -> bool {
        let share = self.users.entry(flow.clone()).or_default();
        let fits = flow.level == Level::System || share.bodies < BODIES_PER_USER;
        if fits {
            share.bodies += 1;
            share.requests += 1;
        }
        fits
    }

    fn grow(&mut self, flow: &Flow, bytes: usize) -> bool {
        let share = self.users.entry(flow.clone()).or_default();
        let is_ordinary = flow.level == Level::Ordinary;
        let fits = self.bytes + bytes <= BYTES
            && share.bytes + bytes <= BYTES_PER_USER
            && (!is_ordinary || self.ordinary_bytes + bytes <= ORDINARY_BYTES);
        if fits {
            share.bytes += bytes;
            self.bytes += bytes;
            self.ordinary_bytes += if is_ordinary { bytes } else { 0 };
        }
        fits
    }

    fn finish(&mut self, flow: &Flow) {
        if let Some(share) = self.users.get_mut(flow) {
            share.bodies -= 1;
        }
    }

    fn release(&mut self, flow: &Flow, bytes: usize) {
        let Some(share) = self.users.get_mut(flow) else { return };
        share.requests -= 1;
        share.bytes -= bytes;
        if share.requests == 0 {
            self.users.remove(flow);
        }
        self.bytes -= bytes;
        if flow.level == Level::Ordinary {
            self.ordinary_bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(level: Level, user: &str) -> Flow {
        Flow { level, user: user.into() }
    }

    #[test]
    fn arrivals_bound_bodies_per_user_and_connection() {
        let arrivals = Arc::new(Arrivals::default());
        let (pod, node) = (flow(Level::Ordinary, "pod"), flow(Level::System, "node"));
        let mut begun: Vec<_> = (0..BODIES_PER_USER).map(|_| arrivals.begin(&pod, None).unwrap()).collect();
        assert_eq!(arrivals.begin(&pod, None).err().map(|e| e.code), Some(429));
        assert!(arrivals.begin(&flow(Level::Ordinary, "other"), None).is_ok());
        begun[0].finish();
        let again = arrivals.begin(&pod, None);
        assert!(again.is_ok(), "one that is whole is not on its way");
        let connection = Connection::default();
        let on_one = |_| arrivals.begin(&node, Some(connection.clone()));
        let held: Vec<_> = (0..BODIES_PER_CONNECTION).map(on_one).collect::<Result<_>>().unwrap();
        assert!(on_one(0).is_err());
        drop((held, begun, again));
        assert!(on_one(0).is_ok());
        assert!(arrivals.0.lock().users.is_empty());
    }

    #[test]
    fn arrivals_bound_memory_per_user_and_in_all() {
        let arrivals = Arc::new(Arrivals::default());
        let fill = |level, user: &str| {
            let mut arrival = arrivals.begin(&flow(level, user), None).unwrap();
            while arrival.grow(MIB).is_ok() {}
            arrival
        };
        let first = fill(Level::Ordinary, "a");
        assert_eq!(first.bytes, BYTES_PER_USER);
        let others: Vec<_> = ["b", "c", "d"].map(|user| fill(Level::Ordinary, user)).into();
        assert_eq!(first.bytes + others.iter().map(|other| other.bytes).sum::<usize>(), ORDINARY_BYTES);
        let nodes: Vec<_> = ["n", "m", "o"].map(|user| fill(Level::System, user)).into();
        assert_eq!(
            nodes.iter().map(|node| node.bytes).collect::<Vec<_>>(),
            [BYTES_PER_USER, BYTES_PER_USER, 0]
        );
        drop((first, others, nodes));
        let counts = arrivals.0.lock();
        assert_eq!((counts.bytes, counts.ordinary_bytes, counts.users.len()), (0, 0, 0));
    }
}
