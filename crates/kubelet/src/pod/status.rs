//! The status that the API server is told: `(desired_pod, runtime state, local_state, now) → PodStatus`. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::desired_pod::{ContainerSpec, DesiredPod, Kind};
use super::local_state::{LocalState, Target};
use super::plan::{end, finished};
use super::{conditions, container_status, qos, terminate, termination};
use crate::cri::{ContainerRecord, PodRecord};

/// What the status says of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    /// The first is the one by which it is known.
    pub host_ips: Vec<String>,
}

pub fn status(
    desired_pod: &DesiredPod,
    record: &PodRecord,
    local_state: &LocalState,
    node: &NodeAddress,
    now: Timestamp,
) -> core::PodStatus {
    let old = desired_pod.pod.status.clone().unwrap_or_default();
    let end = end(desired_pod, local_state, now);
    // Sidecars, and whatever else still runs or is being started, end first: a pod whose phase is final uses
    // nothing any more.
    let stopped = !record.anything_running() && !local_state.may_start();
    // Why a pod ended stays true; what kept it from starting does not.
    let (old_reason, old_message) = match desired_pod.terminal {
        true => (old.reason.clone(), old.message.clone()),
        false => (None, None),
    };
    // Nothing was ever made of it, and nothing will be.
    let rejected = end.as_ref().is_some_and(|end| end.rejected)
        || (desired_pod.terminal && old.container_statuses.is_none() && record.is_empty());
    let list = |kinds: &[Kind]| {
        if rejected {
            return None;
        }
        let specs = desired_pod.containers.iter().filter(|spec| kinds.contains(&spec.kind));
        let list: Vec<_> = specs
            .map(|spec| container_status::container_status(desired_pod, spec, record, local_state, now))
            .collect();
        (!list.is_empty()).then_some(list)
    };
    let mut status = core::PodStatus {
        container_statuses: list(&[Kind::Main]),
        init_container_statuses: list(&[Kind::Init, Kind::Sidecar]),
        ephemeral_container_statuses: list(&[Kind::Ephemeral]),
        host_ip: node.host_ips.first().cloned(),
        host_ips: Some(node.host_ips.iter().map(|ip| core::HostIP { ip: ip.clone() }).collect()),
        start_time: old.start_time.clone().or(Some(Time(local_state.accepted.unwrap_or(now)))),
        qos_class: old.qos_class.clone().or_else(|| Some(qos::class(desired_pod).to_string())),
        reason: end.as_ref().map(|end| end.reason.clone()).or(old_reason),
        message: end.as_ref().map(|end| end.message.clone()).or(old_message),
        observed_generation: desired_pod.pod.metadata.generation,
        ..core::PodStatus::default()
    };
    let phase = phase(desired_pod, record, stopped, end.is_some(), &status);
    status.phase = Some(phase.to_owned());
    if stopped && matches!(phase, "Succeeded" | "Failed") {
        terminate::settle(desired_pod, &old, &mut status);
    }
    set_addresses(&mut status, desired_pod, record, &old, node);
    if let (Some(failure), None) = (local_state.failures.get(&Target::Pod), &status.message) {
        // Visible in `kubectl describe`, and gone with its cause.
        status.message = Some(failure.message.clone());
        status.reason = Some(failure.reason.to_owned());
    }
    termination::shorten(&mut status, desired_pod.containers.len());
    status.conditions = Some(conditions::conditions(desired_pod, record, local_state, &old, &status, now));
    status
}

fn phase(
    desired_pod: &DesiredPod,
    record: &PodRecord,
    stopped: bool,
    ended: bool,
    status: &core::PodStatus,
) -> &'static str {
    let old = desired_pod.pod.status.as_ref().and_then(|status| status.phase.as_deref());
    match old {
        Some("Succeeded") => return "Succeeded",
        Some("Failed") => return "Failed",
        _ => {}
    }
    let ran_well = |spec: &ContainerSpec| {
        record.container(&spec.spec.name).and_then(ContainerRecord::exit_code) == Some(0)
    };
    // A pod that must end before its time has failed, however well its containers took it.
    if ended && stopped {
        return "Failed";
    }
    // A container of a deleted pod that was never made will never be: that is a failure too.
    if stopped && (finished(desired_pod, record) || desired_pod.deleted.is_some()) {
        return if desired_pod.of_kind(Kind::Main).all(ran_well) { "Succeeded" } else { "Failed" };
    }
    let mut statuses = status.container_statuses.iter().flatten();
    let never_ran = |status: &core::ContainerStatus| {
        let state = status.state.as_ref();
        state.is_none_or(|s| s.waiting.is_some())
            && status.last_state.as_ref().is_none_or(|s| s.terminated.is_none())
    };
    if statuses.any(never_ran) { "Pending" } else { "Running" }
}

fn set_addresses(
    status: &mut core::PodStatus,
    desired_pod: &DesiredPod,
    record: &PodRecord,
    old: &core::PodStatus,
    node: &NodeAddress,
) {
    let sandbox = record.sandboxes.first();
    let ips: Vec<String> = match sandbox {
        Some(_) if desired_pod.host_network() => node.host_ips.clone(),
        Some(sandbox) if sandbox.ready => sandbox.ips.clone(),
        _ => Vec::new(),
    };
    if ips.is_empty() {
        // The address of a pod that ended stays in its status; a new sandbox brings a new address.
        (status.pod_ip, status.pod_ips) = (old.pod_ip.clone(), old.pod_ips.clone());
        return;
    }
    status.pod_ip = ips.first().cloned();
    status.pod_ips = Some(ips.into_iter().map(|ip| core::PodIP { ip }).collect());
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
