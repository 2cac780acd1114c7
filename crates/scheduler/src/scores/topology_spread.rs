//! Preferred topology spread: fewer matching pods in a domain are better.
//!
//! Pods that name no constraint but have a controller are spread over nodes and zones among their
//! siblings, so that one machine's end is never the end of a whole ReplicaSet.

use std::sync::Arc;

use super::{Rating, Scale, Score};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot, SpreadConstraint, Topology};
use crate::spread::DomainCounts;

pub struct TopologySpread;

impl Score for TopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn prepare<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Rating<'a>> {
        let by_default = pod.spread.is_empty();
        let all = if by_default { &pod.default_spread } else { &pod.spread };
        let wanted: Vec<&SpreadConstraint> = all.iter().filter(|c| !c.required).collect();
        if wanted.is_empty() {
            return None;
        }
        // Those who ask for a key want nodes that have it; by default each key counts where it is known.
        let keys: Vec<Arc<Topology>> = match by_default {
            true => Vec::new(),
            false => wanted.iter().map(|c| snapshot.topology(&c.term.topology_key)).collect(),
        };
        let rules: Vec<Rule> =
            wanted.iter().map(|constraint| Rule::new(constraint, &keys, pod, snapshot)).collect();
        let rate = move |node: &NodeInfo| {
            if keys.iter().any(|key| key.domain(node.slot).is_none()) {
                return f64::INFINITY;
            }
            rules.iter().map(|rule| rule.burden(node)).sum()
        };
        Some(Rating { scale: Scale::LeastIsBest, rate: Box::new(rate) })
    }
}

struct Rule {
    counts: DomainCounts,
    /// Many domains hold few pods each: weighed by their number, constraints compare.
    weight: f64,
    /// A larger skew is tolerated better.
    leeway: f64,
}

impl Rule {
    #[allow(clippy::cast_precision_loss)]
    fn new(
        constraint: &SpreadConstraint,
        keys: &[Arc<Topology>],
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Self {
        let counts = DomainCounts::of(constraint, keys, pod, snapshot);
        let weight = ((counts.len() + 2) as f64).ln();
        Rule { counts, weight, leeway: (constraint.max_skew - 1) as f64 }
    }

    #[allow(clippy::cast_precision_loss)]
    fn burden(&self, node: &NodeInfo) -> f64 {
        let Some(domain) = self.counts.domain(node.slot) else { return 0.0 };
        self.counts.at(domain).unwrap_or(0) as f64 * self.weight + self.leeway
    }
}
