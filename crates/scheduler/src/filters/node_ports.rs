//! Two pods cannot have the same port of a host.

use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};
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

    fn remedy(&self, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> String {
        let collides = |other: &PodInfo| {
            pod.ports.iter().find(|wanted| other.ports.iter().any(|used| wanted.collides(used)))
        };
        let taken = node.pods().filter_map(|other| collides(other).map(|port| (port.port, &other.key)));
        match taken.min() {
            Some((port, holder)) => format!("use another host port than {port}, which {holder} has"),
            None => "use other host ports".to_owned(),
        }
    }
}
