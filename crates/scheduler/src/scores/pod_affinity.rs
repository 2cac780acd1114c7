//! Preferred pod affinity and anti-affinity, the newcomer's and that of the pods already there.

use std::slice::from_ref;
use std::sync::Arc;

use super::{Rating, Scale, Score};
use crate::snapshot::{NodeInfo, PodInfo, PodTerm, Snapshot, Tally, Topology};

pub struct PodAffinity;

impl Score for PodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    #[allow(clippy::cast_precision_loss)]
    fn prepare<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Rating<'a>> {
        let mut sums = Sums::default();
        for preferred in &pod.preferred_pods {
            let tally = snapshot.matching(from_ref(&preferred.term));
            sums.add(&preferred.term, &tally, preferred.weight, snapshot);
        }
        for (preferred, tally) in snapshot.affinity_terms() {
            if snapshot.term_matches(&preferred.term, pod) {
                sums.add(&preferred.term, tally, preferred.weight, snapshot);
            }
        }
        let by_key = sums.0;
        if by_key.is_empty() {
            return None;
        }
        let rate = move |node: &NodeInfo| {
            let found = by_key.iter().filter_map(|sum| Some(sum.weights[sum.topology.domain(node.slot)?]));
            found.sum::<i64>() as f64
        };
        Some(Rating { scale: Scale::Span, rate: Box::new(rate) })
    }
}

/// Weights per domain of one topology.
struct Sum {
    key: String,
    topology: Arc<Topology>,
    weights: Vec<i64>,
}

/// One per topology key; a pod knows few.
#[derive(Default)]
struct Sums(Vec<Sum>);

impl Sums {
    fn add(&mut self, term: &PodTerm, tally: &Tally, weight: i64, snapshot: &Snapshot) {
        if tally.is_empty() {
            return;
        }
        let known = self.0.iter().position(|sum| sum.key == term.topology_key);
        let at = known.unwrap_or_else(|| {
            let topology = snapshot.topology(&term.topology_key);
            let weights = vec![0; topology.domains()];
            self.0.push(Sum { key: term.topology_key.clone(), topology, weights });
            self.0.len() - 1
        });
        let sum = &mut self.0[at];
        for (slot, count) in tally.slots() {
            if let Some(domain) = sum.topology.domain(slot) {
                sum.weights[domain] += weight * i64::from(count);
            }
        }
    }
}
