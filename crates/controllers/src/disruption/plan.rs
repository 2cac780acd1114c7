//! The numbers and the condition.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{EventRecord, Plan};

use super::Observed;
use crate::deployment::portion;
use crate::pods;

/// A pod that was let go and is still there after this long was not deleted after all.
const DISRUPTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

pub(super) fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let budget = &*seen.budget;
    let mut plan = Plan::default();
    let old = budget.status.clone().unwrap_or_default();
    let disrupted = still_disrupted(seen, &old, now, &mut plan);
    let is_healthy = |pod: &Pod| {
        let name = pod.metadata.name.as_deref().unwrap_or("");
        pods::is_ready(pod) && !pods::is_terminating(pod) && !disrupted.contains_key(name)
    };
    let healthy = count(seen.pods.iter().filter(|pod| is_healthy(pod)).count());
    let (condition, numbers) = match needed(seen) {
        Ok((expected, desired)) => {
            let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
            let condition = match allowed {
                0 => ("False", "InsufficientPods", String::new()),
                _ => ("True", "SufficientPods", String::new()),
            };
            (condition, (expected, desired, allowed))
        }
        // Where nothing is known nothing is allowed.
        Err(why) => {
            let message = format!("Failed to calculate the number of expected pods: {why}");
            plan.event(EventRecord::warning(budget, "CalculateExpectedPodCountFailed", &*message));
            (
                ("False", "SyncFailed", message),
                (old.expected_pods.unwrap_or(0), old.desired_healthy.unwrap_or(0), 0),
            )
        }
    };
    let (expected_pods, desired_healthy, disruptions_allowed) = numbers;
    let status = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(desired_healthy),
        disruptions_allowed: Some(disruptions_allowed),
        expected_pods: Some(expected_pods),
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        observed_generation: budget.metadata.generation,
        conditions: Some(conditions(budget, &old, condition, now)),
    };
    plan.status(budget, PodDisruptionBudget { status: Some(status), ..budget.clone() });
    plan
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Pods that were let go and have not begun to go yet.
fn still_disrupted(
    seen: &Observed,
    old: &PodDisruptionBudgetStatus,
    now: Timestamp,
    plan: &mut Plan,
) -> BTreeMap<String, Time> {
    let mut disrupted = old.disrupted_pods.clone().unwrap_or_default();
    disrupted.retain(|name, since| {
        let pod = seen.pods.iter().find(|pod| pod.metadata.name.as_deref() == Some(name));
        let Some(pod) = pod.filter(|pod| !pods::is_terminating(pod)) else { return false };
        let expires = since.0 + DISRUPTION_TIMEOUT;
        if expires <= now {
            let message = format!(
                "Pod was expected by PDB {} to be deleted but it wasn't",
                seen.budget.metadata.name.as_deref().unwrap_or("")
            );
            plan.event(EventRecord::warning(&**pod, "NotDeleted", message));
            return false;
        }
        plan.again_at(expires, now);
        true
    });
    disrupted
}

/// How many pods are expected, and how many of them must stay healthy.
fn needed(seen: &Observed) -> Result<(i32, i32), String> {
    let Some(spec) = &seen.budget.spec else { return Ok((0, 0)) };
    if let Some(most) = &spec.max_unavailable {
        let expected = seen.scale.clone()?.0;
        return Ok((expected, (expected - portion(most, expected, true)).max(0)));
    }
    match &spec.min_available {
        Some(least @ IntOrString::String(_)) => {
            let expected = seen.scale.clone()?.0;
            Ok((expected, portion(least, expected, true)))
        }
        Some(IntOrString::Int(least)) => Ok((count(seen.pods.len()), *least)),
        None => Ok((count(seen.pods.len()), 0)),
    }
}

fn conditions(
    budget: &PodDisruptionBudget,
    old: &PodDisruptionBudgetStatus,
    (status, reason, message): (&str, &str, String),
    now: Timestamp,
) -> Vec<Condition> {
    const KIND: &str = "DisruptionAllowed";
    let mut all = old.conditions.clone().unwrap_or_default();
    let known = all.iter().find(|c| c.type_ == KIND && c.status == status);
    let since = known.map_or(Time(now), |c| c.last_transition_time.clone());
    let condition = Condition {
        type_: KIND.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since,
        observed_generation: budget.metadata.generation,
    };
    match all.iter_mut().find(|c| c.type_ == KIND) {
        Some(known) => *known = condition,
        None => all.push(condition),
    }
    all
}
