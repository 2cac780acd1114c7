//! Which pods must go to make room for a critical one. Pure.
//!
//! As few as possible, those with the weakest claim first: besteffort before burstable before guaranteed. Within a class
//! the pod goes whose requests come nearest to what is missing, and of equals the smaller.

use super::{Footprint, Missing, Rejection, Victims};
use crate::pod::qos::QosClass;

/// A resource, and how much of it is still missing.
type Need = (String, i64);

pub fn victims(wants: &Footprint, others: &[&Footprint], missing: &[Missing]) -> Result<Victims, Rejection> {
    let needs: Vec<Need> = missing.iter().map(|m| (m.resource.clone(), m.shortfall())).collect();
    let of = |class: QosClass| -> Vec<&Footprint> {
        let weaker = others.iter().filter(|other| is_preemptable(wants, other) && other.class == class);
        weaker.copied().collect()
    };
    let (best_effort, burstable) = (of(QosClass::BestEffort), of(QosClass::Burstable));
    let guaranteed = of(QosClass::Guaranteed);
    let all = [&best_effort[..], &burstable, &guaranteed].concat();
    let unmet = left(&needs, &all);
    if !unmet.is_empty() {
        return Err(unable(&unmet));
    }
    // Of a stronger class only what all pods of the weaker ones could not give.
    let strong = nearest(&guaranteed, left(&needs, &[&best_effort[..], &burstable].concat()))?;
    let middle = nearest(&burstable, left(&needs, &[&best_effort[..], &strong].concat()))?;
    let weak = nearest(&best_effort, left(&needs, &[&middle[..], &strong].concat()))?;
    Ok([weak, middle, strong].concat().into_iter().map(|victim| victim.uid.clone()).collect())
}

fn is_preemptable(wants: &Footprint, other: &Footprint) -> bool {
    let higher = || wants.priority.zip(other.priority).is_some_and(|(own, other)| own > other);
    (wants.is_critical && !other.is_critical) || higher()
}

/// What is still missing when these pods are gone.
fn left(needs: &[Need], gone: &[&Footprint]) -> Vec<Need> {
    let still = needs.iter().map(|(resource, amount)| {
        let freed = gone.iter().fold(0_i64, |sum, pod| sum.saturating_add(pod.request(resource)));
        (resource.clone(), amount.saturating_sub(freed))
    });
    still.filter(|(_, amount)| *amount > 0).collect()
}

fn nearest<'a>(pods: &[&'a Footprint], mut needs: Vec<Need>) -> Result<Vec<&'a Footprint>, Rejection> {
    let mut pods = pods.to_vec();
    let mut chosen = Vec::new();
    while !needs.is_empty() {
        let size = |pod: &Footprint| (pod.requests.memory, pod.requests.cpu);
        let order = |a: &Footprint, b: &Footprint| {
            distance(a, &needs).total_cmp(&distance(b, &needs)).then(size(a).cmp(&size(b)))
        };
        let best = (0..pods.len()).min_by(|a, b| order(pods[*a], pods[*b]));
        let victim = pods.swap_remove(best.ok_or_else(|| unable(&needs))?);
        needs = left(&needs, &[victim]);
        chosen.push(victim);
    }
    Ok(chosen)
}

/// How far a pod's end is from being enough: each resource counts alike, whatever its unit.
fn distance(pod: &Footprint, needs: &[Need]) -> f64 {
    let part = |(resource, amount): &Need| {
        let rest = amount.saturating_sub(pod.request(resource)).max(0);
        (rest as f64 / *amount as f64).powi(2)
    };
    needs.iter().map(part).sum()
}

fn unable(needs: &[Need]) -> Rejection {
    let list: String = needs.iter().map(|(name, amount)| format!("(res: {name}, q: {amount}), ")).collect();
    Rejection {
        reason: "UnexpectedAdmissionError".to_owned(),
        message: format!(
            "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of \
             pods to preempt: no set of running pods found to reclaim resources: [{list}]"
        ),
    }
}
