//! Prefers nodes by the share of CPU and memory that is requested there.

use super::{BEST, Rating, Scale, Score};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};

/// Empty nodes first, or full ones.
pub enum ResourcesUsed {
    Least,
    Most,
}

impl Score for ResourcesUsed {
    fn name(&self) -> &'static str {
        match self {
            ResourcesUsed::Least => "LeastAllocated",
            ResourcesUsed::Most => "MostAllocated",
        }
    }

    fn prepare<'a>(&'a self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Rating<'a>> {
        let rate = move |node: &NodeInfo| {
            let (cpu, memory) = shares(pod, node);
            let used = (cpu + memory) / 2.0 * BEST;
            match self {
                ResourcesUsed::Least => BEST - used,
                ResourcesUsed::Most => used,
            }
        };
        Some(Rating { scale: Scale::Ready, rate: Box::new(rate) })
    }
}

/// The shares of CPU and memory that would be taken with the pod there.
#[allow(clippy::cast_precision_loss)]
pub(super) fn shares(pod: &PodInfo, node: &NodeInfo) -> (f64, f64) {
    let share = |used: i64, more: i64, has: i64| {
        if has <= 0 { 1.0 } else { ((used + more) as f64 / has as f64).min(1.0) }
    };
    (
        share(node.burden.cpu, pod.burden.cpu, node.allocatable.cpu),
        share(node.burden.memory, pod.burden.memory, node.allocatable.memory),
    )
}
