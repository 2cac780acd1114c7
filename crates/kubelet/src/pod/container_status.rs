//! One container's part of the pod status. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::desired_pod::{ContainerSpec, DesiredPod, Kind};
use super::local_state::{LocalState, Target};
use super::plan::must_stop;
use super::{resize, restart};
use crate::cri::{ContainerRecord, ContainerState, PodRecord};

pub fn container_status(
    desired_pod: &DesiredPod,
    spec: &ContainerSpec,
    record: &PodRecord,
    local_state: &LocalState,
    now: Timestamp,
) -> core::ContainerStatus {
    let name = &spec.spec.name;
    let failure = local_state.failures.get(&Target::Container(name.clone()));
    let newest = record.container(name);
    let failure = failure.map(|f| f.shown(spec.spec.image.as_deref().unwrap_or_default(), now));
    let Some(current) = newest else {
        return without_container(desired_pod, spec, failure);
    };
    let previous = record.previous(name).and_then(terminated);
    let restarts = will_restart(desired_pod, spec, current, record, local_state, now);
    let (state, last_state) = match (failure, restarts) {
        (Some((reason, message)), true) => (waiting(reason, &message), terminated(current)),
        (None, true) if restart::not_before(current) > now => {
            (back_off(desired_pod, current), terminated(current))
        }
        _ => (state(current, spec), previous),
    };
    let health = local_state.health.get(&current.id);
    let running = matches!(current.state, ContainerState::Running { .. });
    let given = resize::parse(resize::applied(current, local_state)).filter(|_| running);
    let done = matches!(spec.kind, Kind::Init) && current.exit_code() == Some(0);
    core::ContainerStatus {
        name: name.clone(),
        state: Some(state),
        last_state: last_state.map(|t| core::ContainerState { terminated: Some(t), ..Default::default() }),
        ready: done || (running && health.is_some_and(|h| h.ready)),
        started: Some(running && health.is_some_and(|h| h.started)),
        restart_count: current.attempt as i32,
        image: display_image(spec, current),
        image_id: current.image_id.clone(),
        container_id: Some(format!("containerd://{}", current.id)),
        allocated_resources: given
            .as_ref()
            .and_then(|given| given.requests.clone())
            .filter(|r| !r.is_empty()),
        resources: given.map(without_empty),
        ..Default::default()
    }
}

fn without_empty(mut resources: core::ResourceRequirements) -> core::ResourceRequirements {
    resources.requests = resources.requests.filter(|list| !list.is_empty());
    resources.limits = resources.limits.filter(|list| !list.is_empty());
    resources
}

/// A container that was never made, or that the runtime forgot.
fn without_container(
    desired_pod: &DesiredPod,
    spec: &ContainerSpec,
    failure: Option<(&str, String)>,
) -> core::ContainerStatus {
    let known = reported(desired_pod, &spec.spec.name);
    if let Some(known) = known.clone()
        && (desired_pod.terminal || desired_pod.deleted.is_some())
    {
        return known;
    }
    let initializing = spec.kind == Kind::Main && desired_pod.containers.iter().any(is_init);
    let state = match failure {
        Some((reason, message)) => waiting(reason, &message),
        None if initializing || spec.kind != Kind::Main => waiting("PodInitializing", ""),
        None => waiting("ContainerCreating", ""),
    };
    let lost = known.filter(|status| status.container_id.is_some());
    core::ContainerStatus {
        name: spec.spec.name.clone(),
        state: Some(state),
        last_state: lost.as_ref().map(lost_state),
        restart_count: lost.as_ref().map_or(0, |status| status.restart_count),
        container_id: lost.and_then(|status| status.container_id),
        ready: false,
        started: Some(false),
        image: spec.spec.image.clone().unwrap_or_default(),
        ..Default::default()
    }
}

/// What became of a container that was reported and that the runtime no longer has, as after a reboot.
fn lost_state(reported: &core::ContainerStatus) -> core::ContainerState {
    let ended = reported.state.clone().filter(|state| state.terminated.is_some());
    let before = reported.last_state.clone().filter(|_| {
        // Told already.
        reported.state.as_ref().is_some_and(|state| state.waiting.is_some())
    });
    ended.or(before).unwrap_or_else(|| core::ContainerState {
        terminated: Some(core::ContainerStateTerminated {
            container_id: reported.container_id.clone(),
            exit_code: 137,
            reason: Some("ContainerStatusUnknown".to_owned()),
            message: Some("The container could not be located when the pod was started again".to_owned()),
            ..Default::default()
        }),
        ..Default::default()
    })
}

fn is_init(spec: &ContainerSpec) -> bool {
    matches!(spec.kind, Kind::Init | Kind::Sidecar)
}

fn reported(desired_pod: &DesiredPod, name: &str) -> Option<core::ContainerStatus> {
    let status = desired_pod.pod.status.as_ref()?;
    let lists =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().find(|status| status.name == name).cloned()
}

fn will_restart(
    desired_pod: &DesiredPod,
    spec: &ContainerSpec,
    current: &ContainerRecord,
    record: &PodRecord,
    local_state: &LocalState,
    now: Timestamp,
) -> bool {
    let ended_to_restart = current.exit_code().is_some_and(|code| spec.restarts_after(code));
    ended_to_restart && !must_stop(desired_pod, record, local_state, now)
}

fn state(container: &ContainerRecord, spec: &ContainerSpec) -> core::ContainerState {
    match &container.state {
        ContainerState::Created if spec.kind == Kind::Main => waiting("ContainerCreating", ""),
        ContainerState::Created => waiting("PodInitializing", ""),
        ContainerState::Unknown => waiting("ContainerStatusUnknown", ""),
        ContainerState::Running { started } => core::ContainerState {
            running: Some(core::ContainerStateRunning { started_at: Some(Time(*started)) }),
            ..Default::default()
        },
        ContainerState::Exited { .. } => {
            core::ContainerState { terminated: terminated(container), ..Default::default() }
        }
    }
}

fn terminated(container: &ContainerRecord) -> Option<core::ContainerStateTerminated> {
    let ContainerState::Exited { started, finished, code, reason, message } = &container.state else {
        return None;
    };
    let reason = match (reason.as_str(), code) {
        ("", 0) => "Completed",
        ("", _) => "Error",
        (reason, _) => reason,
    };
    Some(core::ContainerStateTerminated {
        container_id: Some(format!("containerd://{}", container.id)),
        exit_code: *code,
        reason: Some(reason.to_owned()),
        message: (!message.is_empty()).then(|| message.clone()),
        started_at: started.map(Time),
        finished_at: Some(Time(*finished)),
        signal: None,
    })
}

fn back_off(desired_pod: &DesiredPod, container: &ContainerRecord) -> core::ContainerState {
    let delay = restart::delay(container).as_secs();
    let delay = match (delay / 60, delay % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    };
    let (name, pod) = (&container.name, desired_pod.full_name());
    waiting("CrashLoopBackOff", &format!("back-off {delay} restarting failed container={name} pod={pod}"))
}

fn waiting(reason: &str, message: &str) -> core::ContainerState {
    core::ContainerState {
        waiting: Some(core::ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message: (!message.is_empty()).then(|| message.to_owned()),
        }),
        ..Default::default()
    }
}

/// The name the user gave, where the runtime knows the image by its id only.
fn display_image(spec: &ContainerSpec, container: &ContainerRecord) -> String {
    let known = &container.image;
    match known.is_empty() || known.starts_with("sha256:") {
        true => spec.spec.image.clone().unwrap_or_default(),
        false => known.clone(),
    }
}
