//! Prefers nodes by how many pods they have.

use super::{Rating, Scale, Score};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};

pub enum PodCount {
    Least,
    Most,
}

impl Score for PodCount {
    fn name(&self) -> &'static str {
        match self {
            PodCount::Least => "LeastPods",
            PodCount::Most => "MostPods",
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn prepare<'a>(&'a self, _: &'a PodInfo, _: &'a Snapshot) -> Option<Rating<'a>> {
        let scale = match self {
            PodCount::Least => Scale::SpanDown,
            PodCount::Most => Scale::Span,
        };
        Some(Rating { scale, rate: Box::new(|node: &NodeInfo| node.pod_count() as f64) })
    }
}
