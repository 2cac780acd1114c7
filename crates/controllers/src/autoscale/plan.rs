//! What becomes of a decision: the target's scale, the autoscaler's status, events, and the account of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::Resource as _;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition as Condition, HorizontalPodAutoscalerStatus,
    MetricStatus,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_meta::scaling_decision::ScalingDecision;
use minik8s_runtime::{Action, EventRecord, Plan};
use parking_lot::Mutex;
use serde_json::json;

use super::decide::{Decision, Seen, Verdict, Why, decide};
use super::pace::{Memory, bounds};
use super::remote::Answers;
use super::samples::PodSample;
use super::target::{Missing, Target};
use super::text::{condition, merged};

/// A new size that does not show within this long was not taken.
const SETTLING: SignedDuration = SignedDuration::from_secs(2);
/// Metrics of other APIs are asked for this often.
const ASKING: SignedDuration = SignedDuration::from_secs(6);
/// Figures alone are written into the status this often at most: they change all the time.
const TELLING: SignedDuration = SignedDuration::from_secs(5);

/// All that a plan looks at.
pub struct Observed {
    pub autoscaler: Arc<HorizontalPodAutoscaler>,
    pub target: Result<Target, Missing>,
    /// The pods that the target selects.
    pub pods: Vec<Arc<Pod>>,
    /// By pod name.
    pub samples: BTreeMap<String, PodSample>,
    /// Metrics that are not of these pods.
    pub remote: Answers,
    /// Other autoscalers of these pods.
    pub rivals: Vec<String>,
    pub state: Arc<Mutex<State>>,
}

/// What an autoscaler knows beyond its object.
#[derive(Debug, Default)]
pub struct State {
    memory: Memory,
    proposed: Option<Proposed>,
    /// When metrics were last written into the status.
    told: Option<Timestamp>,
}

/// A new size that was asked for and is not yet seen.
#[derive(Debug)]
struct Proposed {
    at: Timestamp,
    from: i32,
    to: i32,
    reason: String,
}

impl State {
    /// What can be known from the object alone.
    pub fn resumed(autoscaler: &HorizontalPodAutoscaler) -> Self {
        let status = autoscaler.status.as_ref();
        let last = status.and_then(|status| status.last_scale_time.as_ref()).map(|time| time.0);
        State { memory: Memory::resumed(last), ..State::default() }
    }
}

/// What a round found out.
struct Outcome {
    desired: i32,
    conditions: Vec<Condition>,
    metrics: Option<Vec<MetricStatus>>,
    rescaled: bool,
    verdict: String,
    why: Why,
}

pub fn plan(seen: &Observed, now: Timestamp) -> (Plan, Option<ScalingDecision>) {
    let mut plan = Plan::default();
    let autoscaler = &*seen.autoscaler;
    if autoscaler.metadata.deletion_timestamp.is_some() {
        return (plan, None);
    }
    let state = &mut *seen.state.lock();
    let outcome = match &seen.target {
        Err(missing) => no_target(autoscaler, missing, &mut plan),
        Ok(target) => {
            if settling(autoscaler, target, state, now, &mut plan) {
                return (plan, None);
            }
            with_target(seen, target, state, now, &mut plan)
        }
    };
    let decision = account(seen, &outcome, now);
    write_status(seen, outcome, state, now, &mut plan);
    (plan, Some(decision))
}

/// The target could not be changed.
pub fn plan_failure(seen: &Observed, error: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let autoscaler = &*seen.autoscaler;
    let state = &mut *seen.state.lock();
    let Some(proposed) = state.proposed.take() else { return plan };
    state.memory.unchanged();
    let message = format!("the HPA controller was unable to update the target scale: {error}");
    let failed = condition("AbleToScale", false, "FailedUpdateScale", message);
    let mut status = autoscaler.status.clone().unwrap_or_default();
    let said = |c: &Condition| {
        c.type_ == failed.type_ && (&c.reason, &c.message) == (&failed.reason, &failed.message)
    };
    if status.conditions.iter().flatten().any(said) {
        return plan;
    }
    let told = format!("New size: {}; reason: {}; error: {error}", proposed.to, proposed.reason);
    plan.event(EventRecord::warning(autoscaler, "FailedRescale", told));
    status.conditions = Some(merged(status.conditions.as_deref().unwrap_or_default(), vec![failed], now));
    let updated = HorizontalPodAutoscaler { status: Some(status), ..autoscaler.clone() };
    plan.status(autoscaler, updated);
    plan
}

/// Whether the last new size is still on its way. Tells of it when it has arrived.
fn settling(
    autoscaler: &HorizontalPodAutoscaler,
    target: &Target,
    state: &mut State,
    now: Timestamp,
    plan: &mut Plan,
) -> bool {
    let Some(proposed) = state.proposed.take() else { return false };
    if target.wanted == proposed.to {
        let message = format!("New size: {}; reason: {}", proposed.to, proposed.reason);
        plan.event(EventRecord::normal(autoscaler, "SuccessfulRescale", message));
        return false;
    }
    if target.wanted == proposed.from && now.duration_since(proposed.at) < SETTLING {
        plan.again_at(proposed.at + SETTLING, now);
        state.proposed = Some(proposed);
        return true;
    }
    if target.wanted == proposed.from {
        state.memory.unchanged();
    }
    false
}

fn no_target(autoscaler: &HorizontalPodAutoscaler, missing: &str, plan: &mut Plan) -> Outcome {
    let message = format!("the HPA controller was unable to get the target's current scale: {missing}");
    let conditions = vec![condition("AbleToScale", false, "FailedGetScale", &*message)];
    warn_once(autoscaler, &conditions[0], "FailedGetScale", missing, plan);
    let desired = autoscaler.status.as_ref().map_or(0, |status| status.desired_replicas);
    Outcome { desired, conditions, metrics: None, rescaled: false, verdict: message, why: Why::default() }
}

/// What the selector of the target is wrong with, or why nothing may be decided.
fn impediment(seen: &Observed, target: &Target) -> Option<(&'static str, String)> {
    if target.selector.is_none() {
        return Some(("InvalidSelector", "the HPA target's scale is missing a selector".to_owned()));
    }
    if seen.rivals.is_empty() {
        return None;
    }
    let all = seen.rivals.join(", ");
    let message = format!(
        "the HPA was unable to compute the replica count: the pods of {} {} are also controlled by {all}; delete all but one of them",
        target.kind.kind, target.key.name
    );
    Some(("AmbiguousSelector", message))
}

fn with_target(
    seen: &Observed,
    target: &Target,
    state: &mut State,
    now: Timestamp,
    plan: &mut Plan,
) -> Outcome {
    let autoscaler = &*seen.autoscaler;
    let able = condition(
        "AbleToScale",
        true,
        "SucceededGetScale",
        "the HPA controller was able to get the target's current scale",
    );
    if let Some((reason, message)) = impediment(seen, target) {
        let inactive = condition("ScalingActive", false, reason, &*message);
        warn_once(autoscaler, &inactive, reason, &message, plan);
        return Outcome {
            desired: target.wanted,
            conditions: vec![able, inactive],
            metrics: None,
            rescaled: false,
            verdict: message,
            why: Why::default(),
        };
    }
    let spec = &autoscaler.spec;
    let input = Seen {
        spec,
        namespace: autoscaler.metadata.namespace.as_deref().unwrap_or_default(),
        replicas: target.wanted,
        pods: &seen.pods,
        samples: &seen.samples,
        remote: &seen.remote,
    };
    // Nobody tells of these: they are asked for again.
    if !seen.remote.is_empty() {
        plan.again_at(now + ASKING, now);
    }
    let Decision { verdict, desired, mut conditions, metrics, why } = decide(&input, &mut state.memory, now);
    conditions.insert(0, able);
    let (mut rescaled, mut metrics) = (false, Some(metrics));
    let verdict = match verdict {
        Verdict::Stay => "nothing to change".to_owned(),
        Verdict::Scale { to, reason } => {
            let on = minik8s_runtime::Target {
                kind: target.kind.clone(),
                key: target.key.clone(),
                uid: None,
                resource_version: None,
            };
            let patch = json!({"spec": {"replicas": to}});
            plan.act(Action::Patch { target: on, subresource: Some("scale"), patch });
            let verdict = format!("from {} to {to} replicas: {reason}", target.wanted);
            state.proposed = Some(Proposed { at: now, from: target.wanted, to, reason });
            plan.again_at(now + SETTLING, now);
            rescaled = true;
            verdict
        }
        Verdict::Unknown { reason, message } => {
            if let Some(inactive) = conditions.iter().find(|c| c.type_ == "ScalingActive") {
                let first = inactive.reason.clone().unwrap_or_default();
                let told = inactive.message.clone().unwrap_or_default();
                warn_once(autoscaler, inactive, specific(&first), &told, plan);
                warn_once(autoscaler, inactive, reason, &message, plan);
            }
            metrics = metrics.filter(|metrics| !metrics.is_empty());
            format!("nothing changes: {message}")
        }
    };
    Outcome { desired, conditions, metrics, rescaled, verdict, why }
}

/// Events carry reasons that live as long as the program.
fn specific(reason: &str) -> &'static str {
    match reason {
        "FailedGetResourceMetric" => "FailedGetResourceMetric",
        "FailedGetContainerResourceMetric" => "FailedGetContainerResourceMetric",
        "FailedGetPodsMetric" => "FailedGetPodsMetric",
        "FailedGetExternalMetric" => "FailedGetExternalMetric",
        "FailedGetObjectMetric" => "FailedGetObjectMetric",
        _ => "InvalidMetricSourceType",
    }
}

/// A warning is told when its condition appears or changes, not every second.
fn warn_once(
    autoscaler: &HorizontalPodAutoscaler,
    about: &Condition,
    reason: &'static str,
    message: &str,
    plan: &mut Plan,
) {
    let known = autoscaler.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let said = |c: &Condition| {
        c.type_ == about.type_
            && c.status == about.status
            && (&c.reason, &c.message) == (&about.reason, &about.message)
    };
    if !known.into_iter().any(said) {
        plan.event(EventRecord::warning(autoscaler, reason, message));
    }
}

fn write_status(seen: &Observed, outcome: Outcome, state: &mut State, now: Timestamp, plan: &mut Plan) {
    let autoscaler = &*seen.autoscaler;
    let old = autoscaler.status.clone().unwrap_or_default();
    let mut conditions = old.conditions.clone().unwrap_or_default();
    conditions = merged(&conditions, outcome.conditions, now);
    let status = HorizontalPodAutoscalerStatus {
        conditions: Some(conditions),
        current_metrics: outcome.metrics.or_else(|| old.current_metrics.clone()),
        current_replicas: Some(seen.target.as_ref().map_or(0, |target| target.existing)),
        desired_replicas: outcome.desired,
        last_scale_time: if outcome.rescaled { Some(Time(now)) } else { old.last_scale_time.clone() },
        observed_generation: autoscaler.metadata.generation,
    };
    let metrics_only =
        HorizontalPodAutoscalerStatus { current_metrics: old.current_metrics.clone(), ..status.clone() }
            == old;
    if metrics_only && state.told.is_some_and(|at| now.duration_since(at) < TELLING) {
        return;
    }
    state.told = Some(now);
    let updated = HorizontalPodAutoscaler { status: Some(status), ..autoscaler.clone() };
    plan.status(autoscaler, updated);
}

fn account(seen: &Observed, outcome: &Outcome, now: Timestamp) -> ScalingDecision {
    let autoscaler = &*seen.autoscaler;
    let reference = &autoscaler.spec.scale_target_ref;
    let (min_replicas, max_replicas) = bounds(&autoscaler.spec);
    let meta = &autoscaler.metadata;
    ScalingDecision {
        api_version: ScalingDecision::API_VERSION.to_owned(),
        kind: ScalingDecision::KIND.to_owned(),
        metadata: ObjectMeta {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            creation_timestamp: meta.creation_timestamp.clone(),
            labels: meta.labels.clone(),
            ..ObjectMeta::default()
        },
        at: Time(now),
        target: format!("{}/{}", reference.kind, reference.name),
        replicas: seen.target.as_ref().map_or(0, |target| target.wanted),
        min_replicas,
        max_replicas,
        metrics: outcome.why.metrics.clone(),
        wish: outcome.why.wish,
        held: outcome.why.held.clone(),
        limited: outcome.why.limited.clone(),
        desired: outcome.desired,
        verdict: outcome.verdict.clone(),
    }
}
