//! Domains of a topology as small numbers, so that counting per domain is indexing, not hashing.
//!
//! Worked out when somebody first asks for a key, and forgotten when a node comes, goes or is relabelled.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{NodeInfo, Slot};

/// Which domain of one key each node is in.
#[derive(Debug, Default)]
pub struct Topology {
    by_slot: Vec<Option<u32>>,
    domains: usize,
}

impl Topology {
    fn of<'a>(key: &str, nodes: impl Iterator<Item = &'a NodeInfo>) -> Self {
        let mut topology = Topology::default();
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        for node in nodes {
            let Some(value) = node.topology(key) else { continue };
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let number = *numbers.entry(value).or_insert(next);
            if node.slot >= topology.by_slot.len() {
                topology.by_slot.resize(node.slot + 1, None);
            }
            topology.by_slot[node.slot] = Some(number);
        }
        topology.domains = numbers.len();
        topology
    }

    /// The domain of the node in that slot; None if it has no such label.
    pub fn domain(&self, slot: Slot) -> Option<usize> {
        self.by_slot.get(slot).copied().flatten().map(|domain| domain as usize)
    }

    pub fn domains(&self) -> usize {
        self.domains
    }
}

/// The topologies that somebody asked for. Behind a lock because asking is reading to everybody else.
#[derive(Default)]
pub(super) struct Topologies(Mutex<HashMap<String, Arc<Topology>>>);

impl Topologies {
    pub fn get<'a>(&self, key: &str, nodes: impl Iterator<Item = &'a NodeInfo>) -> Arc<Topology> {
        let mut known = self.0.lock();
        if let Some(topology) = known.get(key) {
            return topology.clone();
        }
        let topology = Arc::new(Topology::of(key, nodes));
        known.insert(key.to_owned(), topology.clone());
        topology
    }

    pub fn forget(&mut self) {
        self.0.get_mut().clear();
    }
}
