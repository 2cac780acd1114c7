//! Prefers nodes where CPU and memory would be used in like shares, so that neither is left stranded.

use super::resources_used::shares;
use super::{BEST, Rating, Scale, Score};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};

pub struct BalancedAllocation;

impl Score for BalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn prepare<'a>(&'a self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Rating<'a>> {
        let rate = move |node: &NodeInfo| {
            let (cpu, memory) = shares(pod, node);
            BEST - (cpu - memory).abs() / 2.0 * BEST
        };
        Some(Rating { scale: Scale::Ready, rate: Box::new(rate) })
    }
}
