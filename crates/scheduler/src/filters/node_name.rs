//! Pods that name a node can go nowhere else.

use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};
use crate::waking::Waking;

pub struct NodeName;

impl Filter for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Check<'a>> {
        let wanted = pod.spec()?.node_name.as_deref().filter(|name| !name.is_empty())?;
        Some(Box::new(move |node| {
            let same = node.name == wanted;
            if same { Ok(()) } else { Err(Refusal::fixed("node(s) didn't match the requested node name")) }
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE
    }

    fn remedy(&self, pod: &PodInfo, _: &NodeInfo, _: &Snapshot) -> String {
        let wanted = pod.spec().and_then(|spec| spec.node_name.as_deref()).unwrap_or("");
        format!("the pod can only go to node {wanted}: name another, or none")
    }
}
