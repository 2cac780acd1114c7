//! Preferred topology spread: fewer matching pods in a domain are better.

use std::collections::HashMap;

use super::{Rating, Scale, Score};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};

pub struct TopologySpread;

impl Score for TopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn prepare<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Rating<'a>> {
        let mut wanted: Vec<(&'a str, HashMap<&'a str, f64>)> = Vec::new();
        for constraint in pod.spread.iter().filter(|c| !c.required) {
            let key = constraint.term.topology_key.as_str();
            let tally = snapshot.matching(&constraint.term);
            let mut counts: HashMap<&str, f64> = HashMap::new();
            for node in snapshot.nodes() {
                if let Some(domain) = node.topology(key) {
                    *counts.entry(domain).or_default() += f64::from(tally.at(node.slot));
                }
            }
            // Many domains hold few pods each: weigh by their number, so that constraints compare.
            #[allow(clippy::cast_precision_loss)]
            let weight = ((counts.len() + 2) as f64).ln();
            counts.values_mut().for_each(|count| *count *= weight);
            wanted.push((key, counts));
        }
        if wanted.is_empty() {
            return None;
        }
        let rate = move |node: &NodeInfo| {
            let found = wanted.iter().map(|(key, counts)| match node.topology(key) {
                Some(domain) => counts.get(domain).copied().unwrap_or(0.0),
                // A node without the label is worse than any domain.
                None => counts.values().copied().fold(1.0, f64::max) + 1.0,
            });
            found.sum()
        };
        Some(Rating { scale: Scale::SpanDown, rate: Box::new(rate) })
    }
}
