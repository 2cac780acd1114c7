//! Tainted nodes take only pods that tolerate every hard taint.

use k8s_openapi::api::core::v1::Taint;
use minik8s_runtime::placement::tolerates;

use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};
use crate::waking::Waking;

pub struct TaintToleration;

impl Filter for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Check<'a>> {
        Some(Box::new(|node| {
            for taint in hard(node) {
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

    fn remedy(&self, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> String {
        let untolerated = hard(node).filter(|taint| !tolerates(&pod.tolerations, taint));
        let taints: Vec<String> = untolerated
            .map(|taint| match taint.value.as_deref() {
                None | Some("") => format!("{}:{}", taint.key, taint.effect),
                Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
            })
            .collect();
        if taints.iter().any(|taint| taint.starts_with("node.kubernetes.io/")) {
            return format!("wait for the node to recover (kubectl describe node {})", node.name);
        }
        format!("add a toleration of {}", taints.join(" and of "))
    }
}

fn hard(node: &NodeInfo) -> impl Iterator<Item = &Taint> {
    node.taints.iter().filter(|taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute")
}
