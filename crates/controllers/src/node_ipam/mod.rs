//! Gives every node its own range of pod addresses out of the cluster's.

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, Caches, Controller, EventRecord, Key, Plan, Target, Watches};
use serde_json::json;

/// 254 addresses for a node's pods.
const NODE_PREFIX: u8 = 24;

pub struct NodeRanges {
    pub cluster: Ipv4Net,
}

pub struct Observed {
    node: Arc<Node>,
    taken: HashSet<Ipv4Net>,
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
        let node = cache.get(key).filter(|node| range_of(node).is_none())?;
        let taken = cache.list().iter().filter_map(|node| range_of(node)?.parse().ok()).collect();
        Some(Observed { node, taken })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        if seen.node.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let prefix = NODE_PREFIX.max(self.cluster.prefix_len());
        let mut ranges = self.cluster.subnets(prefix).into_iter().flatten();
        match ranges.find(|range| !seen.taken.contains(range)) {
            Some(range) => {
                let range = range.to_string();
                let patch = json!({"spec": {"podCIDR": range, "podCIDRs": [range]}});
                plan.act(Action::Patch { target: Target::unchanged(&*seen.node), subresource: None, patch });
            }
            None => {
                let message = format!("all pod address ranges of {} are taken", self.cluster);
                plan.event(EventRecord::warning(&*seen.node, "CIDRNotAvailable", message));
            }
        }
        plan
    }

    /// Two nodes at once would be given the same range.
    fn workers(&self) -> usize {
        1
    }
}

fn range_of(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.pod_cidr.as_deref().filter(|range| !range.is_empty())
}

#[cfg(test)]
mod tests {
    use minik8s_runtime::testing::{Simulation, World, check_convergence};

    use super::*;

    #[test]
    fn every_node_gets_its_own_range() {
        let build = || {
            let mut world = World::default();
            for (name, range) in
                [("a", None), ("b", Some("10.0.1.0/24")), ("c", None), ("d", None), ("e", None)]
            {
                let node = json!({"metadata": {"name": name}, "spec": {"podCIDR": range}});
                world.insert(&serde_json::from_value::<Node>(node).unwrap());
            }
            let cluster = "10.0.0.0/22".parse().unwrap();
            Simulation::new(world).with(NodeRanges { cluster })
        };
        check_convergence(build, |simulation| {
            let nodes: Vec<Node> = simulation.world.list();
            let mut ranges: Vec<_> = nodes.iter().filter_map(range_of).collect();
            ranges.sort_unstable();
            assert_eq!(ranges, ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"]);
        });
    }
}
