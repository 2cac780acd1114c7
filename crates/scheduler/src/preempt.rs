//! Making room: which pods of lower priority would have to go, and from which node with least harm.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Key, Selector};

use crate::decide::{Refused, refusal};
use crate::explain::count;
use crate::filters::Refusal;
use crate::snapshot::{PodInfo, Snapshot};

/// Comparing more candidates than this takes longer than it gains.
const MOST_CANDIDATES: usize = 100;

const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

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

/// The least harmful way to make the pod fit, or why there is none, in upstream's words. Tries things out on
/// the snapshot and leaves it as it was. `nominated` is where room is being made for it already.
pub fn preempt(
    pod: &PodInfo,
    snapshot: &mut Snapshot,
    refused: &Refused,
    nominated: Option<&str>,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Result<Preemption, String> {
    if pod.spec().and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return Err("not eligible due to preemptionPolicy=Never.".to_owned());
    }
    let being_freed = nominated
        .and_then(|node| snapshot.node(node))
        .is_some_and(|node| node.pods().any(|other| other.is_leaving() && other.priority < pod.priority));
    if being_freed {
        return Err("not eligible due to a terminating pod on the nominated node.".to_owned());
    }
    let hopeless = !snapshot.has_lower_than(pod.priority);
    let mut best: Option<(Harm, Preemption)> = None;
    let mut found = 0;
    let mut reasons: Vec<Refusal> = Vec::new();
    for (node, (_, first)) in &refused.by_node {
        if !first.pods_matter {
            reasons.push(Refusal::fixed(NOT_HELPFUL));
            continue;
        }
        let outcome =
            if hopeless { Err(Refusal::fixed(NO_VICTIMS)) } else { victims_on(node, pod, snapshot, budgets) };
        match outcome {
            Err(refusal) => reasons.push(refusal),
            Ok((harm, victims)) => {
                found += 1;
                if best.as_ref().is_none_or(|(least, _)| harm < *least) {
                    best = Some((harm, Preemption { node: node.clone(), victims }));
                }
            }
        }
        if found >= MOST_CANDIDATES {
            break;
        }
    }
    let why_not = || {
        let reasons = reasons.iter().flat_map(|refusal| refusal.reasons.iter().map(AsRef::as_ref));
        count(refused.nodes, reasons)
    };
    best.map(|(_, preemption)| preemption).ok_or_else(why_not)
}

/// In the order in which it counts: broken budgets, the highest priority hurt, the sum of priorities, the
/// number of pods, and how long the most important of them have run.
type Harm = (usize, i32, i64, usize, Reverse<Option<Timestamp>>);

fn victims_on(
    node: &str,
    pod: &PodInfo,
    snapshot: &mut Snapshot,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Result<(Harm, Vec<Arc<PodInfo>>), Refusal> {
    let here = snapshot.node(node).into_iter().flat_map(|info| info.pods());
    let mut lower: Vec<Arc<PodInfo>> = here.filter(|other| other.priority < pod.priority).cloned().collect();
    if lower.is_empty() {
        return Err(Refusal::fixed(NO_VICTIMS));
    }
    for victim in &lower {
        snapshot.displace(&victim.key);
    }
    let still_refused = |snapshot: &Snapshot| match snapshot.node(node) {
        Some(info) => refusal(pod, snapshot, info),
        None => Some(Refusal::fixed(NOT_HELPFUL)),
    };
    if let Some(refusal) = still_refused(snapshot) {
        for victim in lower {
            snapshot.place(victim, node);
        }
        return Err(refusal);
    }
    // Spare those whose loss hurts most: budgets first, then priority, then age.
    lower.sort_by_key(|victim| (Reverse(victim.priority), started(victim)));
    let protected = over_budget(&lower, budgets);
    lower.sort_by_key(|victim| !protected.contains(&victim.key));
    let mut victims = Vec::new();
    for candidate in lower {
        snapshot.place(candidate.clone(), node);
        if still_refused(snapshot).is_some() {
            snapshot.displace(&candidate.key);
            victims.push(candidate);
        }
    }
    for victim in &victims {
        snapshot.place(victim.clone(), node);
    }
    Ok((harm(&victims, &protected), victims))
}

fn harm(victims: &[Arc<PodInfo>], protected: &HashSet<Key>) -> Harm {
    let broken = victims.iter().filter(|victim| protected.contains(&victim.key)).count();
    let highest = victims.iter().map(|victim| victim.priority).max().unwrap_or(i32::MIN);
    let sum = victims.iter().map(|victim| i64::from(victim.priority) - i64::from(i32::MIN)).sum();
    let most_important = victims.iter().filter(|victim| victim.priority == highest);
    // A pod that never started has least to lose.
    let oldest = most_important.map(|victim| started(victim)).min_by_key(|at| (at.is_none(), *at));
    (broken, highest, sum, victims.len(), Reverse(oldest.flatten()))
}

fn started(pod: &PodInfo) -> Option<Timestamp> {
    pod.pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0)
}

/// Pods whose eviction would break a disruption budget, when all of them went.
fn over_budget(pods: &[Arc<PodInfo>], budgets: &[Arc<PodDisruptionBudget>]) -> HashSet<Key> {
    let mut protected = HashSet::new();
    for budget in budgets {
        let selector = Selector::new(budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()));
        let status = budget.status.as_ref();
        let allowed = status.and_then(|status| status.disruptions_allowed).unwrap_or(0);
        let counted = status.and_then(|status| status.disrupted_pods.as_ref());
        let namespace = budget.metadata.namespace.as_deref().unwrap_or("");
        let covered = pods.iter().filter(|pod| {
            pod.key.namespace == namespace
                && selector.matches(pod.labels())
                // Its eviction has been counted already.
                && !counted.is_some_and(|counted| counted.contains_key(&pod.key.name))
        });
        let beyond = covered.skip(usize::try_from(allowed).unwrap_or(0));
        protected.extend(beyond.map(|pod| pod.key.clone()));
    }
    protected
}
