//! Required pod affinity and anti-affinity, the newcomer's and that of the pods already there.

use std::slice::from_ref;
use std::sync::Arc;

use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, PodTerm, Snapshot, Tally, Topology};
use crate::waking::Waking;

const APART: &str = "node(s) didn't match pod anti-affinity rules";
const KEPT_AWAY: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

pub struct PodAffinity;

impl Filter for PodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Check<'a>> {
        let refused_by_others: Vec<Occupied> =
            refusing(pod, snapshot).map(|(term, tally)| Occupied::of(term, tally, snapshot)).collect();
        if pod.affinity.is_empty() && pod.anti_affinity.is_empty() && refused_by_others.is_empty() {
            return None;
        }
        let avoided: Vec<Occupied> = pod
            .anti_affinity
            .iter()
            .map(|term| Occupied::of(term, &snapshot.matching(from_ref(term)), snapshot))
            .collect();
        // A pod counts as company only if it meets all the terms at once.
        let company = (!pod.affinity.is_empty()).then(|| snapshot.matching(&pod.affinity));
        let wanted: Vec<Occupied> = company
            .iter()
            .flat_map(|company| pod.affinity.iter().map(|term| Occupied::of(term, company, snapshot)))
            .collect();
        // The first of a group that wants to be together may go anywhere.
        let is_first = wanted.iter().all(Occupied::is_empty)
            && pod.affinity.iter().all(|term| snapshot.term_matches(term, pod));
        Some(Box::new(move |node| {
            if !wanted.iter().all(|domains| domains.has(node) || (is_first && domains.knows(node))) {
                return Err(Refusal::fixed("node(s) didn't match pod affinity rules"));
            }
            if avoided.iter().any(|domains| domains.has(node)) {
                return Err(Refusal::by_pods(APART));
            }
            if refused_by_others.iter().any(|domains| domains.has(node)) {
                return Err(Refusal::by_pods(KEPT_AWAY));
            }
            Ok(())
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::ALL
    }

    fn remedy(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> String {
        let refusal = self.prepare(pod, snapshot).and_then(|check| check(node).err());
        match refusal.as_ref().and_then(|refusal| refusal.reasons.first()).map(AsRef::as_ref) {
            Some(APART) => "add a node, or prefer instead of require the pod's anti-affinity".to_owned(),
            Some(KEPT_AWAY) => {
                let refuses =
                    |(term, tally): &(&Arc<PodTerm>, &Tally)| Occupied::of(term, tally, snapshot).has(node);
                let selector =
                    refusing(pod, snapshot).find(refuses).map(|(term, _)| term.selector.to_query());
                format!("change the pod's labels: pods there keep away from {}", selector.unwrap_or_default())
            }
            _ => {
                let missing = pod
                    .affinity
                    .iter()
                    .map(|term| format!("{} (by {})", term.selector.to_query(), term.topology_key));
                format!("run a pod to be near to: {}", missing.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Terms of placed pods that want the newcomer elsewhere.
fn refusing<'a>(
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = (&'a Arc<PodTerm>, &'a Tally)> {
    snapshot.anti_affinity_terms().filter(|(term, _)| snapshot.term_matches(term, pod))
}

/// The domains of a term's topology in which a tally counts anything.
struct Occupied {
    topology: Arc<Topology>,
    domains: Vec<bool>,
    any: bool,
}

impl Occupied {
    fn of(term: &PodTerm, tally: &Tally, snapshot: &Snapshot) -> Self {
        let topology = snapshot.topology(&term.topology_key);
        let mut domains = vec![false; topology.domains()];
        let mut any = false;
        for (slot, _) in tally.slots() {
            if let Some(domain) = topology.domain(slot) {
                domains[domain] = true;
                any = true;
            }
        }
        Occupied { topology, domains, any }
    }

    fn is_empty(&self) -> bool {
        !self.any
    }

    fn has(&self, node: &NodeInfo) -> bool {
        self.topology.domain(node.slot).is_some_and(|domain| self.domains[domain])
    }

    /// The node is part of this topology at all.
    fn knows(&self, node: &NodeInfo) -> bool {
        self.topology.domain(node.slot).is_some()
    }
}
