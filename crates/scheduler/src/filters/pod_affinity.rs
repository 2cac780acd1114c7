//! Required pod affinity and anti-affinity, the newcomer's and that of the pods already there.

use std::collections::HashSet;

use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, PodTerm, Snapshot, Tally};
use crate::waking::Waking;

pub struct PodAffinity;

impl Filter for PodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Check<'a>> {
        let refused_by_others: Vec<Domains<'a>> = snapshot
            .anti_affinity_terms()
            .filter(|(term, _)| snapshot.term_matches(term, pod))
            .map(|(term, tally)| Domains::of(term, tally, snapshot))
            .collect();
        if pod.affinity.is_empty() && pod.anti_affinity.is_empty() && refused_by_others.is_empty() {
            return None;
        }
        let matching = |term: &'a PodTerm| Domains::of(term, &snapshot.matching(term), snapshot);
        let avoided: Vec<Domains<'a>> = pod.anti_affinity.iter().map(|term| matching(term)).collect();
        let wanted: Vec<Domains<'a>> = pod.affinity.iter().map(|term| matching(term)).collect();
        // The first of a group that wants to be together may go anywhere.
        let is_first = wanted.iter().all(Domains::is_empty)
            && pod.affinity.iter().all(|term| snapshot.term_matches(term, pod));
        Some(Box::new(move |node| {
            if !wanted.iter().all(|domains| domains.has(node) || (is_first && domains.knows(node))) {
                return Err(Refusal::fixed("node(s) didn't match pod affinity rules"));
            }
            if avoided.iter().any(|domains| domains.has(node)) {
                return Err(Refusal::by_pods("node(s) didn't match pod anti-affinity rules"));
            }
            if refused_by_others.iter().any(|domains| domains.has(node)) {
                let reason = "node(s) didn't satisfy existing pods anti-affinity rules";
                return Err(Refusal::by_pods(reason));
            }
            Ok(())
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::ALL
    }
}

/// The domains of a term's topology in which a tally counts anything.
struct Domains<'a> {
    key: &'a str,
    occupied: HashSet<&'a str>,
}

impl<'a> Domains<'a> {
    fn of(term: &'a PodTerm, tally: &Tally, snapshot: &'a Snapshot) -> Self {
        let key = term.topology_key.as_str();
        let nodes = tally.slots().filter_map(|(slot, _)| snapshot.node_at(slot));
        Domains { key, occupied: nodes.filter_map(|node| node.topology(key)).collect() }
    }

    fn is_empty(&self) -> bool {
        self.occupied.is_empty()
    }

    fn has(&self, node: &NodeInfo) -> bool {
        node.topology(self.key).is_some_and(|domain| self.occupied.contains(domain))
    }

    /// The node is part of this topology at all.
    fn knows(&self, node: &NodeInfo) -> bool {
        node.topology(self.key).is_some()
    }
}
