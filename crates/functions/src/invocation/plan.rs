//! Who carries out a call, and when it is forgotten.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_meta::destination::Destination;
use minik8s_meta::invocation::{Invocation, InvocationSpec};
use minik8s_runtime::{Action, Plan, Target};
use serde_json::json;

use super::Observed;
use super::destination::{DESTINATION, TOLD, destination, message, told_name};

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

/// Once: what tells is named after what it tells of. A run of a workflow is not seen here, so that it was started is written
/// down.
fn tell_end(seen: &Observed, plan: &mut Plan) {
    let invocation = &*seen.invocation;
    let Some((destination, phase)) = destination(invocation, seen.destinations.as_ref()) else { return };
    match destination {
        Destination::Function(_) if seen.told_before => {}
        Destination::Function(function) => {
            let name = told_name(invocation.metadata.name.as_deref().unwrap_or_default(), phase);
            let payload = message(invocation, phase).to_string();
            plan.act(Action::create(&Invocation {
                metadata: ObjectMeta {
                    name: Some(name),
                    namespace: invocation.metadata.namespace.clone(),
                    labels: Some([(TOLD.to_owned(), "true".to_owned())].into()),
                    ..ObjectMeta::default()
                },
                spec: InvocationSpec { function, payload: Some(payload), ..InvocationSpec::default() },
                ..Invocation::default()
            }));
        }
        Destination::Workflow(_) => {
            let annotations = invocation.metadata.annotations.as_ref();
            if annotations.is_none_or(|annotations| !annotations.contains_key(TOLD)) {
                let target = Target::of(invocation);
                plan.act(Action::Post { target, subresource: DESTINATION, body: json!({}) });
                plan.act(Action::patch(invocation, json!({"metadata": {"annotations": {TOLD: "started"}}})));
            }
        }
    }
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
