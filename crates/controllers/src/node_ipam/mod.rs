//! Gives every node its own ranges of pod addresses out of the cluster's: one of each family, the primary one first.
//!
//! All of them at once, or none: a node's ranges never change, as its pods have addresses there. One that came before the
//! cluster had its second family keeps the one range until it is removed and joins again, as upstream.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::Cidrs;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches};

pub struct NodeRanges {
    pub cluster: Cidrs,
}

pub struct Observed {
    node: Arc<Node>,
    taken: HashSet<IpNet>,
}

impl Controller for NodeRanges {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "node-ipam-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Node>();
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let cache = caches.of::<Node>();
        let node = cache.get(key).filter(|node| plan::ranges(node).is_empty())?;
        let taken = cache.list().iter().flat_map(|node| plan::ranges(node)).collect();
        Some(Observed { node, taken })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        plan::plan(&self.cluster, seen)
    }

    /// Two nodes at once would be given the same range.
    fn workers(&self) -> usize {
        1
    }
}
