//! What makes one possible node better than another: one file per consideration.
//!
//! Like a filter, a score is prepared once per pod and then asked once per node. Numbers mean nothing by
//! themselves; [`Scale`] says how they become 0 to 100 over the nodes that are compared.

mod balanced_allocation;
mod image_locality;
mod measured_use;
mod node_affinity;
mod pod_affinity;
mod pod_count;
mod resources_used;
mod taint_toleration;
mod topology_spread;

use crate::snapshot::{NodeInfo, PodInfo, Snapshot};

pub use balanced_allocation::BalancedAllocation;
pub use image_locality::ImageLocality;
pub use measured_use::MeasuredUse;
pub use node_affinity::NodeAffinity;
pub use pod_affinity::PodAffinity;
pub use pod_count::PodCount;
pub use resources_used::ResourcesUsed;
pub use taint_toleration::TaintToleration;
pub use topology_spread::TopologySpread;

/// How raw numbers become 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// They are 0 to 100 already.
    Ready,
    /// The largest becomes 100; all zero stays zero.
    MoreIsBetter,
    /// Zero becomes 100, the largest 0.
    LessIsBetter,
    /// The smallest becomes 0, the largest 100 (raw numbers may be negative).
    Span,
    /// The smallest becomes 100, the largest 0.
    SpanDown,
    /// The smallest becomes 100, others less by their distance in terms of the largest; infinity becomes 0.
    LeastIsBest,
}

pub struct Rating<'a> {
    pub scale: Scale,
    pub rate: Box<dyn Fn(&NodeInfo) -> f64 + 'a>,
}

pub trait Score: Send + Sync {
    fn name(&self) -> &'static str;

    /// None: it makes no difference for this pod.
    fn prepare<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Rating<'a>>;
}

/// The best a node can get from one score.
pub const BEST: f64 = 100.0;

impl Scale {
    /// Turns raw numbers into 0 to 100, in place.
    pub fn apply(self, raw: &mut [f64]) {
        let most = raw.iter().copied().filter(|v| v.is_finite()).fold(f64::MIN, f64::max);
        let least = raw.iter().copied().fold(f64::MAX, f64::min);
        match self {
            Scale::Ready => {}
            Scale::MoreIsBetter if most <= 0.0 => raw.fill(0.0),
            Scale::MoreIsBetter => raw.iter_mut().for_each(|v| *v = *v * BEST / most),
            Scale::LessIsBetter if most <= 0.0 => raw.fill(BEST),
            Scale::LessIsBetter => raw.iter_mut().for_each(|v| *v = BEST - *v * BEST / most),
            Scale::Span | Scale::SpanDown if most <= least => raw.fill(0.0),
            Scale::LeastIsBest => {
                let scaled = |v: f64| if most <= 0.0 { BEST } else { (most + least - v) * BEST / most };
                raw.iter_mut().for_each(|v| *v = if v.is_finite() { scaled(*v) } else { 0.0 });
            }
            Scale::Span => raw.iter_mut().for_each(|v| *v = (*v - least) * BEST / (most - least)),
            Scale::SpanDown => raw.iter_mut().for_each(|v| *v = (most - *v) * BEST / (most - least)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales() {
        let check = |scale: Scale, raw: &[f64], expected: &[f64]| {
            let mut values = raw.to_vec();
            scale.apply(&mut values);
            assert_eq!(values, expected, "{scale:?} of {raw:?}");
        };
        check(Scale::Ready, &[1.0, 2.0], &[1.0, 2.0]);
        check(Scale::MoreIsBetter, &[0.0, 5.0, 10.0], &[0.0, 50.0, 100.0]);
        check(Scale::MoreIsBetter, &[0.0, 0.0], &[0.0, 0.0]);
        check(Scale::LessIsBetter, &[0.0, 5.0, 10.0], &[100.0, 50.0, 0.0]);
        check(Scale::LessIsBetter, &[0.0], &[100.0]);
        check(Scale::Span, &[-10.0, 0.0, 10.0], &[0.0, 50.0, 100.0]);
        check(Scale::Span, &[3.0, 3.0], &[0.0, 0.0]);
        check(Scale::SpanDown, &[1.0, 2.0, 3.0], &[100.0, 50.0, 0.0]);
        check(Scale::LeastIsBest, &[2.0, 4.0, f64::INFINITY], &[100.0, 50.0, 0.0]);
        check(Scale::LeastIsBest, &[0.0, 0.0], &[100.0, 100.0]);
        check(Scale::Span, &[], &[]);
    }
}
