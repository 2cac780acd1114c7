//! Making room: which pods of lower priority would have to go, and from which node with least harm.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use minik8s_runtime::{Key, Selector};

use crate::decide::{Refused, fits};
use crate::snapshot::{PodInfo, Snapshot};

/// Comparing more candidates than this takes longer than it gains.
const MOST_CANDIDATES: usize = 100;

#[derive(Debug)]
pub struct Preemption {
    pub node: String,
    pub victims: Vec<Arc<PodInfo>>,
}

impl std::fmt::Debug for PodInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.key)
    }
}

/// The least harmful way to make the pod fit. Tries things out on the snapshot and leaves it as it was.
/// `nominated` pods are not there yet: they give way to higher priority without being deleted.
pub fn preempt(
    pod: &PodInfo,
    snapshot: &mut Snapshot,
    refused: &Refused,
    nominated: &HashSet<Key>,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Option<Preemption> {
    if pod.spec().and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return None;
    }
    let candidates = refused.by_node.iter().filter(|(_, (_, refusal))| refusal.pods_matter);
    let mut best: Option<(Harm, Preemption)> = None;
    for (node, _) in candidates.take(MOST_CANDIDATES) {
        let Some((harm, victims)) = victims_on(node, pod, snapshot, nominated, budgets) else { continue };
        if best.as_ref().is_none_or(|(least, _)| harm < *least) {
            best = Some((harm, Preemption { node: node.clone(), victims }));
        }
    }
    best.map(|(_, preemption)| preemption)
}

/// In the order in which it counts: broken budgets, the highest priority hurt, their sum, their number.
type Harm = (usize, i32, i64, usize);

fn victims_on(
    node: &str,
    pod: &PodInfo,
    snapshot: &mut Snapshot,
    nominated: &HashSet<Key>,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Option<(Harm, Vec<Arc<PodInfo>>)> {
    let mut lower: Vec<Arc<PodInfo>> =
        snapshot.node(node)?.pods().filter(|other| other.priority < pod.priority).cloned().collect();
    if lower.is_empty() {
        return None;
    }
    for victim in &lower {
        snapshot.displace(&victim.key);
    }
    let still_fits = |snapshot: &Snapshot| snapshot.node(node).is_some_and(|info| fits(pod, snapshot, info));
    if !still_fits(snapshot) {
        for victim in lower {
            snapshot.place(victim, node);
        }
        return None;
    }
    let protected: HashSet<Key> = over_budget(&lower, budgets);
    // Spare those whose loss hurts most: budgets first, then priority, then age.
    lower.sort_by_key(|victim| {
        let started = victim.pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map(|t| t.0);
        (!protected.contains(&victim.key), std::cmp::Reverse(victim.priority), started)
    });
    let mut victims = Vec::new();
    let mut undo = Vec::new();
    for candidate in lower {
        snapshot.place(candidate.clone(), node);
        if !still_fits(snapshot) {
            snapshot.displace(&candidate.key);
            undo.push(candidate.clone());
            if !nominated.contains(&candidate.key) {
                victims.push(candidate);
            }
        }
    }
    for candidate in undo {
        snapshot.place(candidate, node);
    }
    let broken = victims.iter().filter(|victim| protected.contains(&victim.key)).count();
    let highest = victims.iter().map(|victim| victim.priority).max().unwrap_or(i32::MIN);
    let sum = victims.iter().map(|victim| i64::from(victim.priority) - i64::from(i32::MIN)).sum();
    Some(((broken, highest, sum, victims.len()), victims))
}

/// Pods whose eviction would break a disruption budget, when all of them went.
fn over_budget(pods: &[Arc<PodInfo>], budgets: &[Arc<PodDisruptionBudget>]) -> HashSet<Key> {
    let mut protected = HashSet::new();
    for budget in budgets {
        let selector = Selector::new(budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()));
        let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0);
        let namespace = budget.metadata.namespace.as_deref().unwrap_or("");
        let covered =
            pods.iter().filter(|pod| pod.key.namespace == namespace && selector.matches(pod.labels()));
        let beyond = covered.skip(usize::try_from(allowed).unwrap_or(0));
        protected.extend(beyond.map(|pod| pod.key.clone()));
    }
    protected
}
