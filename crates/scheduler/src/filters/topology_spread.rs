//! Required topology spread: no domain may have too many more matching pods than the emptiest one.

use std::collections::HashMap;

use minik8s_runtime::placement::tolerates;

use super::node_affinity::admits;
use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot, SpreadConstraint};
use crate::waking::Waking;

pub struct TopologySpread;

impl Filter for TopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Check<'a>> {
        let required: Vec<&SpreadConstraint> = pod.spread.iter().filter(|c| c.required).collect();
        if required.is_empty() {
            return None;
        }
        let domains: Vec<Domains<'a>> =
            required.iter().map(|constraint| Domains::count(constraint, &required, pod, snapshot)).collect();
        Some(Box::new(move |node| domains.iter().try_for_each(|domains| domains.check(node))))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE | Waking::POD_GONE | Waking::POD_PLACED
    }
}

struct Domains<'a> {
    constraint: &'a SpreadConstraint,
    counts: HashMap<&'a str, i64>,
    fewest: i64,
    /// 1 if the pod itself counts.
    itself: i64,
}

impl<'a> Domains<'a> {
    fn count(
        constraint: &'a SpreadConstraint,
        all: &[&SpreadConstraint],
        pod: &PodInfo,
        snapshot: &'a Snapshot,
    ) -> Self {
        let tally = snapshot.matching(&constraint.term);
        let mut counts: HashMap<&str, i64> = HashMap::new();
        for node in snapshot.nodes() {
            // Nodes that lack any of the keys take no part.
            let has_all_keys = all.iter().all(|c| node.topology(&c.term.topology_key).is_some());
            if !has_all_keys || !counts_for(constraint, pod, node) {
                continue;
            }
            if let Some(domain) = node.topology(&constraint.term.topology_key) {
                *counts.entry(domain).or_default() += i64::from(tally.at(node.slot));
            }
        }
        let too_few_domains = counts.len() < constraint.min_domains;
        let fewest = if too_few_domains { 0 } else { counts.values().copied().min().unwrap_or(0) };
        let itself = i64::from(snapshot.term_matches(&constraint.term, pod));
        Domains { constraint, counts, fewest, itself }
    }

    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        let Some(domain) = node.topology(&self.constraint.term.topology_key) else {
            let reason = "node(s) didn't match pod topology spread constraints (missing required label)";
            return Err(Refusal::fixed(reason));
        };
        let here = self.counts.get(domain).copied().unwrap_or(0);
        if here + self.itself - self.fewest > self.constraint.max_skew {
            return Err(Refusal::by_pods("node(s) didn't match pod topology spread constraints"));
        }
        Ok(())
    }
}

/// Whether the constraint's policies let this node be counted.
fn counts_for(constraint: &SpreadConstraint, pod: &PodInfo, node: &NodeInfo) -> bool {
    let hard = |effect: &str| effect == "NoSchedule" || effect == "NoExecute";
    let tolerated = || node.taints.iter().filter(|t| hard(&t.effect)).all(|t| tolerates(&pod.tolerations, t));
    (!constraint.honour_affinity || admits(pod, node)) && (!constraint.honour_taints || tolerated())
}
