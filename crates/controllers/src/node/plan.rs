//! What to do about one node.

use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, EventRecord, Plan, Target};
use serde_json::json;

use super::{Observed, conditions, eviction, taints};
use crate::pods;

pub(super) fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let node = &*seen.node;
    let given_up_at = seen.heard + seen.grace;
    if given_up_at > now {
        plan.again_at(given_up_at, now);
    } else {
        let silenced = conditions::silenced(node, now);
        if silenced != *node {
            if conditions::is_ready(node) {
                tell_not_ready(node, &mut plan);
            }
            // The taints follow when the status has come back to us.
            plan.status(node, silenced);
            return plan;
        }
    }
    let wanted = taints::wanted(node, seen.anybody_heard, now);
    if wanted != taints::of(node) {
        let patch = json!({"spec": {"taints": wanted}});
        plan.act(Action::Patch { target: Target::unchanged(node), subresource: None, patch });
    }
    if !conditions::is_ready(node) {
        for pod in seen.pods.iter().filter(|pod| pods::is_ready(pod)) {
            plan.act(with_condition(pod, "Ready", "False", None, now));
        }
    }
    evict(seen, &wanted, now, &mut plan);
    plan
}

fn tell_not_ready(node: &Node, plan: &mut Plan) {
    let name = node.metadata.name.as_deref().unwrap_or("");
    let message = format!("Node {name} status is now: NodeNotReady");
    plan.event(EventRecord::normal(node, "NodeNotReady", message));
}

fn evict(seen: &Observed, taints: &[Taint], now: Timestamp, plan: &mut Plan) {
    let in_trouble = !conditions::is_ready(&seen.node) || now >= seen.heard + seen.grace / 2;
    for pod in seen.pods.iter().filter(|pod| !pods::is_terminating(pod)) {
        let by_taint = eviction::evicted_at(pod, taints, now);
        let early =
            eviction::failover_at(pod, seen.heard, seen.lease).filter(|_| in_trouble && seen.anybody_heard);
        let Some(at) = by_taint.into_iter().chain(early).min() else { continue };
        if at > now {
            plan.again_at(at, now);
            continue;
        }
        let message = format!("Marking for deletion Pod {}", minik8s_runtime::key_of(&**pod));
        plan.event(EventRecord::normal(&**pod, "TaintManagerEviction", message));
        if pods::condition(pod, "DisruptionTarget").is_none() {
            let why = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
            plan.act(with_condition(pod, "DisruptionTarget", "True", Some(why), now));
        }
        plan.act(Action::delete(&**pod));
    }
}

/// Replaces the list of conditions as a whole, so nobody may have changed it.
fn with_condition(pod: &Pod, kind: &str, is: &str, why: Option<(&str, &str)>, now: Timestamp) -> Action {
    let mut conditions = pod.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    conditions.retain(|c| c.type_ != kind);
    conditions.push(PodCondition {
        type_: kind.to_owned(),
        status: is.to_owned(),
        reason: why.map(|(reason, _)| reason.to_owned()),
        message: why.map(|(_, message)| message.to_owned()),
        last_transition_time: Some(Time(now)),
        ..PodCondition::default()
    });
    let patch = json!({"status": {"conditions": conditions}});
    Action::Patch { target: Target::unchanged(pod), subresource: Some("status"), patch }
}
