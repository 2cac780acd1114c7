//! Who carries out a call, and when it is forgotten.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_meta::invocation::{Invocation, InvocationSpec};
use minik8s_runtime::{Action, Plan};
use serde_json::json;

use super::Observed;

/// On calls that tell how others ended.
const DESTINATION: &str = "minik8s.io/destination";

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let invocation = &*seen.invocation;
    if invocation.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    if invocation.has_ended() {
        tell_end(seen, &mut plan);
        forget(invocation, now, &mut plan);
        return plan;
    }
    let node = invocation.spec.node.as_deref().unwrap_or_default();
    if seen.ready.iter().any(|ready| ready == node) {
        return plan;
    }
    // Calls spread over the nodes by their names, and a plan has no chance.
    let name = invocation.metadata.name.as_deref().unwrap_or_default();
    let sum = name.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    if let Some(chosen) = seen.ready.get(sum.checked_rem(seen.ready.len()).unwrap_or(0)) {
        plan.act(Action::patch(invocation, json!({"spec": {"node": chosen}})));
    }
    plan
}

/// The call that tells another function how one ended.
pub fn told_name(name: &str, phase: &str) -> String {
    format!("{name}-{}", phase.to_lowercase())
}

/// Once: the name of the call is made of the name of the one that ended. What is told is not told of again, unless it says so
/// itself: else two functions could call each other for ever.
fn tell_end(seen: &Observed, plan: &mut Plan) {
    let invocation = &*seen.invocation;
    let Some(status) = invocation.status.as_ref().filter(|_| !seen.told_before) else { return };
    let labels = invocation.metadata.labels.as_ref();
    let is_told = labels.is_some_and(|labels| labels.contains_key(DESTINATION));
    let usual = seen.destinations.clone().filter(|_| !is_told).unwrap_or_default();
    let spec = &invocation.spec;
    let (function, outcome) = match status.phase.as_str() {
        "Failed" => (spec.on_failure.clone().or(usual.on_failure), "Failed"),
        _ => (spec.on_success.clone().or(usual.on_success), "Succeeded"),
    };
    let Some(function) = function else { return };
    let name = invocation.metadata.name.clone().unwrap_or_default();
    let told = json!({
        "function": spec.function,
        "payload": spec.payload,
        "invocation": name,
        "phase": outcome,
        "attempts": status.attempts,
        "code": status.code,
        "result": status.result,
    });
    plan.act(Action::create(&Invocation {
        metadata: ObjectMeta {
            name: Some(told_name(&name, outcome)),
            namespace: invocation.metadata.namespace.clone(),
            labels: Some([(DESTINATION.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: InvocationSpec { function, payload: Some(told.to_string()), ..InvocationSpec::default() },
        ..Invocation::default()
    }));
}

fn forget(invocation: &Invocation, now: Timestamp, plan: &mut Plan) {
    let ttl = SignedDuration::from_secs(i64::from(invocation.spec.ttl_seconds.unwrap_or(3600)));
    let ended = invocation.status.as_ref().and_then(|status| status.completion_time.as_ref());
    let until = ended.and_then(|ended| ended.0.checked_add(ttl).ok());
    match until {
        Some(until) if until > now => plan.again_at(until, now),
        _ => plan.act(Action::delete(invocation)),
    }
}
