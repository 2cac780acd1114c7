//! How many pods a topology spread constraint counts in each domain; filter and score read it alike.

use std::sync::Arc;

use minik8s_runtime::placement::tolerates;

use crate::filters::admits;
use crate::snapshot::{NodeInfo, PodInfo, Slot, Snapshot, SpreadConstraint, Topology};

pub struct DomainCounts {
    topology: Arc<Topology>,
    /// None: no node of this domain takes part.
    counts: Vec<Option<i64>>,
}

impl DomainCounts {
    /// Only nodes with all of the `keys` take part.
    pub fn of(
        constraint: &SpreadConstraint,
        keys: &[Arc<Topology>],
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Self {
        let topology = snapshot.topology(&constraint.term.topology_key);
        let tally = snapshot.matching(std::slice::from_ref(&constraint.term));
        let mut counts = vec![None; topology.domains()];
        for node in snapshot.nodes() {
            let Some(domain) = topology.domain(node.slot) else { continue };
            let has_all_keys = keys.iter().all(|key| key.domain(node.slot).is_some());
            if has_all_keys && takes_part(constraint, pod, node) {
                *counts[domain].get_or_insert(0) += i64::from(tally.at(node.slot));
            }
        }
        DomainCounts { topology, counts }
    }

    pub fn domain(&self, slot: Slot) -> Option<usize> {
        self.topology.domain(slot)
    }

    pub fn at(&self, domain: usize) -> Option<i64> {
        self.counts.get(domain).copied().flatten()
    }

    /// Domains that take part.
    pub fn len(&self) -> usize {
        self.counts.iter().flatten().count()
    }

    pub fn fewest(&self) -> Option<i64> {
        self.counts.iter().flatten().copied().min()
    }
}

/// Whether the constraint's policies let this node be counted.
fn takes_part(constraint: &SpreadConstraint, pod: &PodInfo, node: &NodeInfo) -> bool {
    let hard = |effect: &str| effect == "NoSchedule" || effect == "NoExecute";
    let tolerated = || node.taints.iter().filter(|t| hard(&t.effect)).all(|t| tolerates(&pod.tolerations, t));
    (!constraint.honour_affinity || admits(pod, node)) && (!constraint.honour_taints || tolerated())
}
