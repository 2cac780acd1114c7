//! Tainted nodes take only pods that tolerate every hard taint.

use minik8s_runtime::placement::tolerates;

use super::{Check, Filter, Refusal};
use crate::snapshot::{PodInfo, Snapshot};
use crate::waking::Waking;

pub struct TaintToleration;

impl Filter for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Check<'a>> {
        Some(Box::new(|node| {
            let hard = node.taints.iter().filter(|t| t.effect == "NoSchedule" || t.effect == "NoExecute");
            for taint in hard {
                if !tolerates(&pod.tolerations, taint) {
                    let value = taint.value.as_deref().unwrap_or("");
                    let reason = format!("node(s) had untolerated taint {{{}: {value}}}", taint.key);
                    return Err(Refusal::fixed(reason));
                }
            }
            Ok(())
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE
    }
}
