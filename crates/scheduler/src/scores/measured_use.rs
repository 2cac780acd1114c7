//! Prefers nodes that really use least, where use is measured; elsewhere by what is requested.

use super::{Rating, Scale, Score};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};

pub enum MeasuredUse {
    Cpu,
    Memory,
}

impl Score for MeasuredUse {
    fn name(&self) -> &'static str {
        match self {
            MeasuredUse::Cpu => "LeastCpu",
            MeasuredUse::Memory => "LeastMemory",
        }
    }

    fn prepare<'a>(&'a self, _: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Rating<'a>> {
        // Shares that were measured and shares that were requested do not compare.
        let measured = snapshot.nodes().all(|node| node.usage.is_some());
        let rate = move |node: &NodeInfo| self.share(node, measured);
        Some(Rating { scale: Scale::SpanDown, rate: Box::new(rate) })
    }
}

impl MeasuredUse {
    #[allow(clippy::cast_precision_loss)]
    fn share(&self, node: &NodeInfo, measured: bool) -> f64 {
        let usage = node.expected_usage().filter(|_| measured);
        let (used, has) = match self {
            MeasuredUse::Cpu => (usage.map_or(node.burden.cpu, |u| u.cpu_millis), node.allocatable.cpu),
            MeasuredUse::Memory => {
                (usage.map_or(node.burden.memory, |u| u.memory_bytes), node.allocatable.memory)
            }
        };
        if has <= 0 { 1.0 } else { used as f64 / has as f64 }
    }
}
