//! Two pods cannot have the same port of a host.

use super::{Check, Filter, Refusal};
use crate::snapshot::{PodInfo, Snapshot};
use crate::waking::Waking;

pub struct NodePorts;

impl Filter for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Check<'a>> {
        if pod.ports.is_empty() {
            return None;
        }
        Some(Box::new(|node| {
            let taken = pod.ports.iter().any(|wanted| node.ports.iter().any(|used| wanted.collides(used)));
            let reason = "node(s) didn't have free ports for the requested pod ports";
            if taken { Err(Refusal::by_pods(reason)) } else { Ok(()) }
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE | Waking::POD_GONE
    }
}
