//! Avoids nodes with soft taints (`PreferNoSchedule`) that the pod does not tolerate.

use minik8s_runtime::placement::tolerates;

use super::{Rating, Scale, Score};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};

pub struct TaintToleration;

impl Score for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    #[allow(clippy::cast_precision_loss)]
    fn prepare<'a>(&'a self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Rating<'a>> {
        let rate = |node: &NodeInfo| {
            let soft = node.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
            soft.filter(|taint| !tolerates(&pod.tolerations, taint)).count() as f64
        };
        Some(Rating { scale: Scale::LessIsBetter, rate: Box::new(rate) })
    }
}
