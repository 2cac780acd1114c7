//! The conditions of a pod that its node decides. Those of others are left as they are. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::admitted::PREEMPTING;
use super::desired_pod::{DesiredPod, Kind};
use super::local_state::LocalState;
use super::resize;
use crate::cri::{ContainerRecord, PodRecord};

pub const PENDING: &str = "PodResizePending";
const IN_PROGRESS: &str = "PodResizeInProgress";

struct Verdict {
    is_true: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Verdict {
    fn yes() -> Self {
        Verdict { is_true: true, reason: None, message: None }
    }

    fn no(reason: &'static str, message: Option<String>) -> Self {
        Verdict { is_true: false, reason: Some(reason), message }
    }
}

pub fn conditions(
    desired_pod: &DesiredPod,
    record: &PodRecord,
    local_state: &LocalState,
    old: &core::PodStatus,
    status: &core::PodStatus,
    now: Timestamp,
) -> Vec<core::PodCondition> {
    let phase = status.phase.as_deref().unwrap_or_default();
    let containers = containers_ready(status, phase);
    let mut ready = gates_open(desired_pod, old);
    if !containers.is_true {
        ready = Verdict { is_true: false, reason: containers.reason, message: containers.message.clone() };
    }
    let sandbox = match record.sandbox() {
        Some(_) => Verdict::yes(),
        None => Verdict { is_true: false, reason: None, message: None },
    };
    let own = [
        ("PodReadyToStartContainers", sandbox),
        ("Initialized", initialized(desired_pod, record, phase)),
        ("Ready", ready),
        ("ContainersReady", containers),
        ("PodScheduled", Verdict::yes()),
    ];
    let before = old.conditions.clone().unwrap_or_default();
    let own: Vec<_> =
        own.into_iter().chain(resize(desired_pod, record, local_state)).chain(evicted(local_state)).collect();
    let is_own =
        |kind: &str| own.iter().any(|(own, _)| *own == kind) || [PENDING, IN_PROGRESS].contains(&kind);
    let others = before.iter().filter(|c| !is_own(&c.type_)).cloned();
    let mut all: Vec<_> = others.collect();
    for (kind, verdict) in own {
        let previous = before.iter().find(|c| c.type_ == kind);
        all.push(condition(kind, verdict, previous, desired_pod.pod.metadata.generation, now));
    }
    all
}

/// Said of a pod that the node ends for its own sake; once said, it stays.
fn evicted(local_state: &LocalState) -> Option<(&'static str, Verdict)> {
    let end = local_state.end.as_ref()?;
    let message = match end.reason.as_str() {
        "Evicted" => end.message.clone(),
        PREEMPTING => "Pod was preempted by Kubelet to accommodate a critical pod.".to_owned(),
        _ => return None,
    };
    let (reason, message) = (Some("TerminationByKubelet"), Some(message));
    Some(("DisruptionTarget", Verdict { is_true: true, reason, message }))
}

/// Only while a resize is under way, or cannot be.
fn resize(
    desired_pod: &DesiredPod,
    record: &PodRecord,
    local_state: &LocalState,
) -> Option<(&'static str, Verdict)> {
    if desired_pod.terminal || !resize::pod_differs(desired_pod, record, local_state) {
        return None;
    }
    let pending = |reason, message: &String| {
        Some((PENDING, Verdict { is_true: true, reason: Some(reason), message: Some(message.clone()) }))
    };
    match &local_state.resize {
        resize::Verdict::Deferred(message) => pending("Deferred", message),
        resize::Verdict::Infeasible(message) => pending("Infeasible", message),
        resize::Verdict::Allowed => {
            let failure = local_state.failures.values().find(|failure| failure.reason == "ResizeError");
            let message = failure.map(|failure| failure.message.clone());
            Some((IN_PROGRESS, Verdict { is_true: true, reason: message.as_ref().map(|_| "Error"), message }))
        }
    }
}

fn condition(
    kind: &str,
    verdict: Verdict,
    previous: Option<&core::PodCondition>,
    generation: Option<i64>,
    now: Timestamp,
) -> core::PodCondition {
    let status = if verdict.is_true { "True" } else { "False" };
    let unchanged = previous.filter(|p| p.status == status).and_then(|p| p.last_transition_time.clone());
    core::PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.map(str::to_owned),
        message: verdict.message,
        last_transition_time: unchanged.or(Some(Time(now))),
        last_probe_time: None,
        observed_generation: generation,
    }
}

fn containers_ready(status: &core::PodStatus, phase: &str) -> Verdict {
    match phase {
        "Succeeded" => return Verdict::no("PodCompleted", None),
        "Failed" => return Verdict::no("PodFailed", None),
        _ => {}
    }
    let sidecars = status.init_container_statuses.iter().flatten().filter(|s| s.started == Some(true));
    let all = status.container_statuses.iter().flatten().chain(sidecars);
    let unready: Vec<_> = all.filter(|s| !s.ready).map(|s| s.name.as_str()).collect();
    match unready.as_slice() {
        [] => Verdict::yes(),
        names => Verdict::no(
            "ContainersNotReady",
            Some(format!("containers with unready status: [{}]", names.join(" "))),
        ),
    }
}

/// Conditions that others set and that the pod's spec makes readiness depend on.
fn gates_open(desired_pod: &DesiredPod, old: &core::PodStatus) -> Verdict {
    let gates = desired_pod.spec().and_then(|spec| spec.readiness_gates.clone()).unwrap_or_default();
    let is_true = |kind: &str| {
        let mut conditions = old.conditions.iter().flatten();
        conditions.any(|c| c.type_ == kind && c.status == "True")
    };
    let closed: Vec<_> = gates.into_iter().map(|g| g.condition_type).filter(|kind| !is_true(kind)).collect();
    match closed.first() {
        None => Verdict::yes(),
        Some(kind) => Verdict::no(
            "ReadinessGatesNotReady",
            Some(format!(
                "corresponding condition of pod readiness gate \"{kind}\" does not exist or is not \"True\"."
            )),
        ),
    }
}

fn initialized(desired_pod: &DesiredPod, record: &PodRecord, phase: &str) -> Verdict {
    let started = desired_pod.of_kind(Kind::Main).any(|spec| record.container(&spec.spec.name).is_some());
    if started || phase == "Succeeded" {
        return match phase {
            "Succeeded" => Verdict { reason: Some("PodCompleted"), ..Verdict::yes() },
            _ => Verdict::yes(),
        };
    }
    let done = |name: &str| record.container(name).and_then(ContainerRecord::exit_code) == Some(0);
    let init = desired_pod.of_kind(Kind::Init).map(|spec| spec.spec.name.as_str());
    let open: Vec<_> = init.filter(|name| !done(name)).collect();
    match open.as_slice() {
        [] => Verdict::yes(),
        names => Verdict::no(
            "ContainersNotInitialized",
            Some(format!("containers with incomplete status: [{}]", names.join(" "))),
        ),
    }
}
