use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;

/// Name and ranges of each node, as they are and as they are to be.
fn check(cluster: &str, nodes: &[(&str, &[&str])], expected: &[(&str, &[&str])]) {
    let build = || {
        let mut world = World::default();
        for (name, ranges) in nodes {
            let spec =
                if ranges.is_empty() { json!({}) } else { json!({"podCIDR": ranges[0], "podCIDRs": ranges}) };
            let node: Value = json!({"metadata": {"name": name}, "spec": spec});
            world.insert(&serde_json::from_value::<Node>(node).unwrap());
        }
        Simulation::new(world).with(NodeRanges { cluster: cluster.parse().unwrap() })
    };
    check_convergence(build, |simulation| {
        for (name, ranges) in expected {
            let node: Node = simulation.world.get(&Key::new("", *name)).unwrap();
            let spec = node.spec.unwrap_or_default();
            assert_eq!(spec.pod_cidr.as_deref(), ranges.first().copied(), "{name}");
            assert_eq!(spec.pod_cidrs.unwrap_or_default(), *ranges, "{name}");
        }
    });
}

#[test]
fn every_node_gets_its_own_range() {
    let build = || {
        let mut world = World::default();
        for (name, range) in [("a", None), ("b", Some("10.0.1.0/24")), ("c", None), ("d", None), ("e", None)]
        {
            // As a node of long ago: the list of ranges is younger than the single one.
            let node = json!({"metadata": {"name": name}, "spec": {"podCIDR": range}});
            world.insert(&serde_json::from_value::<Node>(node).unwrap());
        }
        Simulation::new(world).with(NodeRanges { cluster: "10.0.0.0/22".parse().unwrap() })
    };
    check_convergence(build, |simulation| {
        let nodes: Vec<Node> = simulation.world.list();
        let mut ranges: Vec<_> = nodes.iter().filter_map(|node| node.spec.clone()?.pod_cidr).collect();
        ranges.sort_unstable();
        // One of the five gets none.
        assert_eq!(ranges, ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"]);
    });
}

#[test]
fn node_gets_a_range_of_each_family() {
    check("10.244.0.0/16", &[("a", &[])], &[("a", &["10.244.0.0/24"])]);
    check("fd00:10:244::/56", &[("a", &[])], &[("a", &["fd00:10:244::/64"])]);
    let (first, second): (&[&str], &[&str]) =
        (&["10.244.0.0/24", "fd00:10:244::/64"], &["10.244.1.0/24", "fd00:10:244:1::/64"]);
    check("10.244.0.0/16,fd00:10:244::/56", &[("a", first), ("b", &[])], &[("a", first), ("b", second)]);
    check("fd00::/48,10.0.0.0/16", &[("a", &[])], &[("a", &["fd00::/64", "10.0.0.0/24"])]);
    // A small range is one node's.
    check("fd00::/80", &[("a", &[])], &[("a", &["fd00::/80"])]);
}

#[test]
fn node_keeps_its_ranges() {
    let one: &[&str] = &["10.244.0.0/24"];
    check("10.244.0.0/16,fd00::/56", &[("old", one)], &[("old", one)]);
}

#[test]
fn node_gets_nothing_if_one_family_is_full() {
    let taken: &[&str] = &["10.0.0.0/24", "fd00::/64"];
    check("10.0.0.0/16,fd00::/64", &[("a", taken), ("b", &[])], &[("a", taken), ("b", &[])]);
}
