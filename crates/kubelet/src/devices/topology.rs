//! Which memory nodes (NUMA) the devices of a container shall be near to: the rules of Kubernetes' topology manager, for
//! devices of plugins.
//!
//! Each resource hints at the sets of memory nodes that have enough of its devices; a hint is preferred if no smaller set
//! could ever have enough. The hints of all resources of a container are merged, and the policy says what a merged hint
//! that is not preferred means. Devices without a topology do not care. Pure: it chooses no device and knows no pod.

use std::str::FromStr;

/// As many memory nodes as all combinations of are looked at.
const MOST_NODES: usize = 8;

/// What a node does with pods whose devices are not near to each other. The names are the kubelet's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TopologyPolicy {
    /// Each resource is chosen for itself.
    None,
    /// Together if possible.
    #[default]
    BestEffort,
    /// The pod is refused unless they are as near as they could ever be.
    Restricted,
    /// The pod is refused unless one memory node has them all.
    SingleNumaNode,
}

impl FromStr for TopologyPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(TopologyPolicy::None),
            "best-effort" => Ok(TopologyPolicy::BestEffort),
            "restricted" => Ok(TopologyPolicy::Restricted),
            "single-numa-node" => Ok(TopologyPolicy::SingleNumaNode),
            _ => Err("it must be none, best-effort, restricted or single-numa-node".to_owned()),
        }
    }
}

impl std::fmt::Display for TopologyPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TopologyPolicy::None => "none",
            TopologyPolicy::BestEffort => "best-effort",
            TopologyPolicy::Restricted => "restricted",
            TopologyPolicy::SingleNumaNode => "single-numa-node",
        })
    }
}

/// A set of memory nodes, a bit each.
pub type Nodes = u64;

pub fn nodes(ids: &[i64]) -> Nodes {
    let bits = ids.iter().filter_map(|id| u32::try_from(*id).ok().filter(|id| *id < Nodes::BITS));
    bits.fold(0, |all, id| all | (1 << id))
}

/// One device of a resource that a container asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Near to these; none: it does not care.
    pub nodes: Nodes,
    /// Nobody has it.
    pub is_free: bool,
}

/// What a container asks of one resource, and all healthy devices of it.
#[derive(Debug, Clone)]
pub struct Request {
    pub count: usize,
    pub devices: Vec<Place>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hint {
    nodes: Nodes,
    is_preferred: bool,
}

/// The memory nodes to take devices from, `None` for any; an error if the policy refuses the container.
pub fn affinity(policy: TopologyPolicy, requests: &[Request]) -> Result<Option<Nodes>, ()> {
    if policy == TopologyPolicy::None {
        return Ok(None);
    }
    let caring = requests.iter().filter(|request| request.devices.iter().any(|place| place.nodes != 0));
    let mut hints: Vec<Vec<Hint>> = caring.map(hints).collect();
    if policy == TopologyPolicy::SingleNumaNode {
        for of_resource in &mut hints {
            of_resource.retain(|hint| hint.is_preferred && hint.nodes.count_ones() == 1);
        }
    }
    // One resource alone is its plugin's own affair, unless the policy is strict.
    if hints.is_empty() || (hints.len() == 1 && policy == TopologyPolicy::BestEffort) {
        return Ok(None);
    }
    match (merge(&hints), policy) {
        (Some(best), TopologyPolicy::BestEffort) => Ok(Some(best.nodes)),
        (Some(best), _) if best.is_preferred => Ok(Some(best.nodes)),
        (_, TopologyPolicy::BestEffort) => Ok(None),
        _ => Err(()),
    }
}

/// Every set of memory nodes with enough free devices.
fn hints(request: &Request) -> Vec<Hint> {
    let all = request.devices.iter().fold(0, |all, place| all | place.nodes);
    let enough = |nodes: Nodes, only_free: bool| {
        let near = |place: &&Place| place.nodes & nodes != 0 || place.nodes == 0;
        let counted = request.devices.iter().filter(near).filter(|place| place.is_free || !only_free);
        counted.count() >= request.count
    };
    let sets = subsets(all);
    let smallest = sets.iter().filter(|set| enough(**set, false)).map(|set| set.count_ones()).min();
    let good = sets.into_iter().filter(|set| enough(*set, true));
    good.map(|set| Hint { nodes: set, is_preferred: Some(set.count_ones()) == smallest }).collect()
}

/// All sets of these memory nodes; where there are too many of those, each alone and all together.
fn subsets(all: Nodes) -> Vec<Nodes> {
    let single: Vec<Nodes> = (0..Nodes::BITS).map(|bit| 1 << bit).filter(|bit| all & bit != 0).collect();
    if single.len() > MOST_NODES {
        return single.into_iter().chain([all]).collect();
    }
    let combine = |number: usize| {
        let chosen = single.iter().enumerate().filter(|(at, _)| number >> at & 1 == 1);
        chosen.fold(0, |set, (_, bit)| set | bit)
    };
    (1..1_usize << single.len()).map(combine).collect()
}

/// The best of what all resources can agree on: preferred by all, then the fewest memory nodes.
fn merge(hints: &[Vec<Hint>]) -> Option<Hint> {
    let mut merged: Vec<Hint> = vec![Hint { nodes: Nodes::MAX, is_preferred: true }];
    for (at, of_resource) in hints.iter().enumerate() {
        let mut next: Vec<Hint> = Vec::new();
        for (before, hint) in merged.iter().flat_map(|before| of_resource.iter().map(move |h| (before, h))) {
            let nodes = before.nodes & hint.nodes;
            // Near to each other means: near to the very same.
            let is_same = at == 0 || before.nodes == hint.nodes;
            let both = Hint { nodes, is_preferred: before.is_preferred && hint.is_preferred && is_same };
            if nodes != 0 && !next.contains(&both) {
                next.push(both);
            }
        }
        merged = next;
    }
    merged.into_iter().min_by_key(|hint| (!hint.is_preferred, hint.nodes.count_ones(), hint.nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `"0 0* 1"`: three devices at their memory nodes, those with a star are taken; `-` has no topology.
    fn request(count: usize, devices: &str) -> Request {
        let place = |text: &str| Place {
            nodes: text.trim_end_matches('*').parse().map_or(0, |id: i64| nodes(&[id])),
            is_free: !text.ends_with('*'),
        };
        Request { count, devices: devices.split(' ').map(place).collect() }
    }

    #[track_caller]
    fn check(policy: TopologyPolicy, requests: &[Request], expected: Result<Option<Nodes>, ()>) {
        assert_eq!(affinity(policy, requests), expected, "{policy}");
    }

    const STRICT: [TopologyPolicy; 2] = [TopologyPolicy::Restricted, TopologyPolicy::SingleNumaNode];

    #[test]
    fn resources_come_from_the_same_memory_node() {
        // The network card's place decides for the GPU.
        let together = [request(1, "0 0 1 1"), request(1, "0* 1")];
        for policy in [TopologyPolicy::BestEffort, STRICT[0], STRICT[1]] {
            check(policy, &together, Ok(Some(0b10)));
        }
        check(TopologyPolicy::None, &together, Ok(None));
    }

    #[test]
    fn policies_differ_when_it_cannot_be() {
        // The free card is elsewhere.
        let apart = [request(1, "0 1*"), request(1, "0* 1")];
        check(TopologyPolicy::BestEffort, &apart, Ok(Some(0b01)));
        STRICT.iter().for_each(|policy| check(*policy, &apart, Err(())));
        // Two where one memory node could have them, but each has one left.
        let scattered = [request(2, "0 0* 1 1*")];
        check(TopologyPolicy::BestEffort, &scattered, Ok(None));
        STRICT.iter().for_each(|policy| check(*policy, &scattered, Err(())));
        // Three never fit on one: as near as they can be.
        let large = [request(3, "0 0 1 1")];
        check(TopologyPolicy::Restricted, &large, Ok(Some(0b11)));
        check(TopologyPolicy::SingleNumaNode, &large, Err(()));
    }

    #[test]
    fn devices_without_topology_do_not_care() {
        for policy in STRICT {
            check(policy, &[request(2, "- -")], Ok(None));
            check(policy, &[request(2, "- -"), request(1, "0* 1")], Ok(Some(0b10)));
            check(policy, &[], Ok(None));
        }
        let many = (0..12).map(|id| id.to_string()).collect::<Vec<_>>().join(" ");
        check(TopologyPolicy::SingleNumaNode, &[request(1, &many)], Ok(Some(1)));
        assert_eq!(nodes(&[-1, 64, 3]), 0b1000);
    }

    #[test]
    fn policies_have_the_kubelets_names() {
        for name in ["none", "best-effort", "restricted", "single-numa-node"] {
            assert_eq!(name.parse::<TopologyPolicy>().unwrap().to_string(), name);
        }
        assert!("strict".parse::<TopologyPolicy>().is_err());
    }
}
