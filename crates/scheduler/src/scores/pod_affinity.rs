//! Preferred pod affinity and anti-affinity, the newcomer's and that of the pods already there.

use std::collections::HashMap;

use super::{Rating, Scale, Score};
use crate::snapshot::{NodeInfo, PodInfo, PodTerm, Snapshot, Tally};

pub struct PodAffinity;

impl Score for PodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    #[allow(clippy::cast_precision_loss)]
    fn prepare<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Rating<'a>> {
        let mut sums = Sums { snapshot, by_domain: HashMap::new() };
        for preferred in &pod.preferred_pods {
            let tally = snapshot.matching(&preferred.term);
            sums.add(&preferred.term, &tally, preferred.weight);
        }
        for (preferred, tally) in snapshot.affinity_terms() {
            if snapshot.term_matches(&preferred.term, pod) {
                sums.add(&preferred.term, tally, preferred.weight);
            }
        }
        let by_domain = sums.by_domain;
        if by_domain.is_empty() {
            return None;
        }
        let rate = move |node: &NodeInfo| {
            let keys = by_domain.iter();
            let found = keys.filter_map(|(key, sums)| node.topology(key).and_then(|domain| sums.get(domain)));
            found.sum::<i64>() as f64
        };
        Some(Rating { scale: Scale::Span, rate: Box::new(rate) })
    }
}

struct Sums<'a> {
    snapshot: &'a Snapshot,
    /// Topology key to domain to weight.
    by_domain: HashMap<String, HashMap<&'a str, i64>>,
}

impl Sums<'_> {
    fn add(&mut self, term: &PodTerm, tally: &Tally, weight: i64) {
        for (slot, count) in tally.slots() {
            let domain = self.snapshot.node_at(slot).and_then(|node| node.topology(&term.topology_key));
            if let Some(domain) = domain {
                let domains = self.by_domain.entry(term.topology_key.clone()).or_default();
                *domains.entry(domain).or_default() += weight * i64::from(count);
            }
        }
    }
}
