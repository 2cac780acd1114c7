//! Which ranges a node gets. Pure.

use std::collections::HashSet;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use minik8s_meta::Cidrs;
use minik8s_runtime::{Action, EventRecord, Plan, Target};
use serde_json::json;

use super::Observed;

/// 254 addresses for a node's pods.
const NODE_PREFIX_V4: u8 = 24;
/// What IPv6 calls a network.
const NODE_PREFIX_V6: u8 = 64;

pub(super) fn plan(cluster: &Cidrs, seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    if seen.node.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let free = cluster.iter().map(|range| free_range(range, &seen.taken).ok_or(range));
    match free.collect::<Result<Vec<IpNet>, IpNet>>() {
        Ok(ranges) => {
            let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
            let patch = json!({"spec": {"podCIDR": ranges[0], "podCIDRs": ranges}});
            plan.act(Action::Patch { target: Target::unchanged(&*seen.node), subresource: None, patch });
        }
        Err(full) => {
            let message = format!("all pod address ranges of {full} are taken");
            plan.event(EventRecord::warning(&*seen.node, "CIDRNotAvailable", message));
        }
    }
    plan
}

/// As many are looked at as are taken, and one more: a range of IPv6 may have more parts than could ever be counted.
fn free_range(cluster: IpNet, taken: &HashSet<IpNet>) -> Option<IpNet> {
    let prefix = match cluster {
        IpNet::V4(range) => NODE_PREFIX_V4.max(range.prefix_len()),
        IpNet::V6(range) => NODE_PREFIX_V6.max(range.prefix_len()),
    };
    cluster.subnets(prefix).ok()?.find(|range| !taken.contains(range))
}

/// Those that a node has.
pub(super) fn ranges(node: &Node) -> Vec<IpNet> {
    let Some(spec) = &node.spec else { return Vec::new() };
    let listed = spec.pod_cidrs.iter().flatten().chain(&spec.pod_cidr);
    listed.filter_map(|range| range.parse().ok()).collect()
}
