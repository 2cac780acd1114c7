//! Preferred node affinity.

use super::{Rating, Scale, Score};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};

pub struct NodeAffinity;

impl Score for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn prepare<'a>(&'a self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Rating<'a>> {
        if pod.preferred_nodes.is_empty() {
            return None;
        }
        let rate = |node: &NodeInfo| {
            let met = pod.preferred_nodes.iter().filter(|(_, terms)| terms.admits(node));
            met.map(|(weight, _)| f64::from(*weight)).sum()
        };
        Some(Rating { scale: Scale::MoreIsBetter, rate: Box::new(rate) })
    }
}
