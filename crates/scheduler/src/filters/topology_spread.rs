//! Required topology spread: no domain may have too many more matching pods than the emptiest one.

use std::sync::Arc;

use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot, SpreadConstraint, Topology};
use crate::spread::DomainCounts;
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
        let keys: Vec<Arc<Topology>> =
            required.iter().map(|constraint| snapshot.topology(&constraint.term.topology_key)).collect();
        let rules: Vec<Rule> =
            required.iter().map(|constraint| Rule::new(constraint, &keys, pod, snapshot)).collect();
        Some(Box::new(move |node| rules.iter().try_for_each(|rule| rule.check(node))))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE | Waking::POD_GONE | Waking::POD_PLACED
    }

    fn remedy(&self, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> String {
        let required = pod.spread.iter().filter(|c| c.required);
        let keys: Vec<&str> = required.map(|c| c.term.topology_key.as_str()).collect();
        match keys.iter().find(|key| node.topology(key).is_none()) {
            Some(key) => format!("label the node: kubectl label node {} {key}=VALUE", node.name),
            None => format!(
                "raise maxSkew or use whenUnsatisfiable: ScheduleAnyway in the pod's spread over {}",
                keys.join(", ")
            ),
        }
    }
}

struct Rule {
    counts: DomainCounts,
    fewest: i64,
    /// 1 if the pod itself counts.
    itself: i64,
    max_skew: i64,
}

impl Rule {
    fn new(
        constraint: &SpreadConstraint,
        keys: &[Arc<Topology>],
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Self {
        let counts = DomainCounts::of(constraint, keys, pod, snapshot);
        let too_few_domains = counts.len() < constraint.min_domains;
        let fewest = if too_few_domains { 0 } else { counts.fewest().unwrap_or(0) };
        let itself = i64::from(snapshot.term_matches(&constraint.term, pod));
        Rule { counts, fewest, itself, max_skew: constraint.max_skew }
    }

    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        let Some(domain) = self.counts.domain(node.slot) else {
            let reason = "node(s) didn't match pod topology spread constraints (missing required label)";
            return Err(Refusal::fixed(reason));
        };
        let here = self.counts.at(domain).unwrap_or(0);
        if here + self.itself - self.fewest > self.max_skew {
            return Err(Refusal::by_pods("node(s) didn't match pod topology spread constraints"));
        }
        Ok(())
    }
}
