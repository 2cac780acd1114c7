//! One decision of one autoscaler. Pure: no clock, no client, no logging.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::{
    HPAScalingRules, HorizontalPodAutoscalerCondition as Condition, HorizontalPodAutoscalerSpec, MetricSpec,
    MetricStatus, MetricTarget, ResourceMetricSource,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::Quantity;
use minik8s_meta::scaling_decision::ScalingMetric;

use super::account::account;
use super::metric::{Basis, Failure, Proposal, Tolerance, propose};
use super::pace::{Memory, bounds, pace};
use super::remote::Answers;
use super::samples::PodSample;
use super::text::condition;

const TOLERANCE: f64 = 0.1;
/// What an autoscaler without metrics goes by.
const DEFAULT_CPU: i32 = 80;

/// What a decision is made from.
pub struct Seen<'a> {
    pub spec: &'a HorizontalPodAutoscalerSpec,
    /// Of the autoscaler.
    pub namespace: &'a str,
    /// `spec.replicas` of the target.
    pub replicas: i32,
    /// The pods that the target selects.
    pub pods: &'a [Arc<Pod>],
    /// By pod name; pods without one are not measured.
    pub samples: &'a BTreeMap<String, PodSample>,
    /// Metrics that are not of these pods.
    pub remote: &'a Answers,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Leave the target as it is.
    Stay,
    /// Change it, for this reason.
    Scale { to: i32, reason: String },
    /// It cannot be told; nothing changes. Event reason and message.
    Unknown { reason: &'static str, message: String },
}

#[derive(Debug, Clone)]
pub struct Decision {
    pub verdict: Verdict,
    /// What `status.desiredReplicas` shows.
    pub desired: i32,
    pub conditions: Vec<Condition>,
    pub metrics: Vec<MetricStatus>,
    pub why: Why,
}

/// What the decision was made from, for people.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Why {
    pub metrics: Vec<ScalingMetric>,
    /// The largest of what the metrics ask for.
    pub wish: Option<i32>,
    pub held: Option<String>,
    pub limited: Option<String>,
}

pub fn decide(seen: &Seen<'_>, memory: &mut Memory, now: Timestamp) -> Decision {
    let (least, most) = bounds(seen.spec);
    let current = seen.replicas;
    if current == 0 && least != 0 {
        let message = "scaling is disabled since the replica count of the target is zero";
        let conditions = vec![condition("ScalingActive", false, "ScalingDisabled", message)];
        return Decision {
            verdict: Verdict::Stay,
            desired: 0,
            conditions,
            metrics: Vec::new(),
            why: Why::default(),
        };
    }
    if current > most {
        return outside(most, "Current number of replicas above Spec.MaxReplicas", current, memory, now);
    }
    if current < least {
        return outside(least, "Current number of replicas below Spec.MinReplicas", current, memory, now);
    }
    by_metrics(seen, memory, now)
}

/// Bounds hold at once, whatever is measured.
fn outside(to: i32, reason: &str, current: i32, memory: &mut Memory, now: Timestamp) -> Decision {
    memory.changed(now, to - current);
    Decision {
        verdict: Verdict::Scale { to, reason: reason.to_owned() },
        desired: to,
        conditions: vec![rescaled(to)],
        metrics: Vec::new(),
        why: Why { limited: Some(reason.to_owned()), ..Why::default() },
    }
}

fn by_metrics(seen: &Seen<'_>, memory: &mut Memory, now: Timestamp) -> Decision {
    let current = seen.replicas;
    let default = [default_metric()];
    let specs = seen.spec.metrics.as_deref().filter(|metrics| !metrics.is_empty()).unwrap_or(&default);
    let basis = Basis {
        current,
        namespace: seen.namespace,
        pods: seen.pods,
        samples: seen.samples,
        remote: seen.remote,
        tolerance: tolerance(seen.spec),
        now,
    };
    let (mut proposals, mut failures): (Vec<Proposal>, Vec<Failure>) = (Vec::new(), Vec::new());
    let mut why = Why::default();
    for spec in specs {
        let outcome = propose(spec, &basis);
        why.metrics.push(account(spec, &basis, &outcome));
        match outcome {
            Ok(proposal) => proposals.push(proposal),
            Err(failure) => failures.push(failure),
        }
    }
    // The first of the largest, as upstream names it.
    let largest = proposals.iter().rev().max_by_key(|proposal| proposal.replicas);
    let wish = largest.map(|proposal| (proposal.replicas, proposal.name.clone()));
    why.wish = wish.as_ref().map(|(replicas, _)| *replicas);
    let metrics = proposals.into_iter().map(|proposal| proposal.status).collect();
    // What is not measured might need every replica there is: without it nothing shrinks.
    let blind = |wish: &(i32, String)| !failures.is_empty() && wish.0 < current;
    let Some((wish, name)) = wish.filter(|wish| !blind(wish)) else {
        return unknown(&failures, specs.len(), current, metrics, why);
    };
    let message = format!("the HPA was able to successfully calculate a replica count from {name}");
    let mut conditions = vec![condition("ScalingActive", true, "ValidMetricFound", message)];
    let paced = pace(seen.spec, memory, current, wish, now);
    why.held = paced.held.map(|(_, message)| message.to_owned());
    why.limited = paced.limited.map(|(_, message)| message.to_owned());
    let (reason, message) =
        paced.held.unwrap_or(("ReadyForNewScale", "recommended size matches current size"));
    conditions.push(condition("AbleToScale", true, reason, message));
    let fine = ("DesiredWithinRange", "the desired count is within the acceptable range");
    let (reason, message) = paced.limited.unwrap_or(fine);
    conditions.push(condition("ScalingLimited", paced.limited.is_some(), reason, message));
    let to = paced.replicas;
    let verdict = if to == current {
        Verdict::Stay
    } else {
        memory.changed(now, to - current);
        conditions.retain(|condition| condition.type_ != "AbleToScale");
        conditions.push(rescaled(to));
        let reason =
            if to > current { format!("{name} above target") } else { "All metrics below target".to_owned() };
        Verdict::Scale { to, reason }
    };
    Decision { verdict, desired: to, conditions, metrics, why }
}

fn unknown(
    failures: &[Failure],
    metrics: usize,
    current: i32,
    known: Vec<MetricStatus>,
    why: Why,
) -> Decision {
    let (reason, first) =
        failures.first().map_or(("FailedComputeMetricsReplicas", ""), |f| (f.reason, &*f.message));
    let message = format!("the HPA was unable to compute the replica count: {first}");
    let event =
        format!("invalid metrics ({} invalid out of {metrics}), first error is: {first}", failures.len());
    Decision {
        verdict: Verdict::Unknown { reason: "FailedComputeMetricsReplicas", message: event },
        desired: current,
        conditions: vec![condition("ScalingActive", false, reason, message)],
        metrics: known,
        why,
    }
}

fn rescaled(to: i32) -> Condition {
    let message = format!("the HPA controller was able to update the target scale to {to}");
    condition("AbleToScale", true, "SucceededRescale", message)
}

fn tolerance(spec: &HorizontalPodAutoscalerSpec) -> Tolerance {
    let given = |rules: Option<&HPAScalingRules>| {
        let quantity = rules.and_then(|rules| rules.tolerance.as_ref());
        let milli =
            quantity.and_then(|quantity| Quantity::try_from(quantity).ok()).map(|quantity| quantity.milli());
        milli.map_or(TOLERANCE, |milli| milli as f64 / 1000.0)
    };
    let behavior = spec.behavior.as_ref();
    Tolerance {
        down: given(behavior.and_then(|behavior| behavior.scale_down.as_ref())),
        up: given(behavior.and_then(|behavior| behavior.scale_up.as_ref())),
    }
}

fn default_metric() -> MetricSpec {
    let average_utilization = Some(DEFAULT_CPU);
    let target =
        MetricTarget { type_: "Utilization".to_owned(), average_utilization, ..MetricTarget::default() };
    MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(ResourceMetricSource { name: "cpu".to_owned(), target }),
        ..MetricSpec::default()
    }
}
