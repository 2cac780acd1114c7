//! The status that the API server is told: `(blueprint, runtime state, notes, now) → PodStatus`. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::blueprint::{Blueprint, Kind};
use super::notes::{Notes, Target};
use super::plan::{end, finished};
use super::{conditions, container_status, qos};
use crate::cri::{ContainerRecord, PodRecord};

/// What the status says of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    pub host_ip: String,
}

pub fn status(
    blueprint: &Blueprint,
    record: &PodRecord,
    notes: &Notes,
    node: &NodeAddress,
    now: Timestamp,
) -> core::PodStatus {
    let old = blueprint.pod.status.clone().unwrap_or_default();
    let end = end(blueprint, notes, now);
    // Why a pod ended stays true; what kept it from starting does not.
    let (old_reason, old_message) = match blueprint.terminal {
        true => (old.reason.clone(), old.message.clone()),
        false => (None, None),
    };
    let list = |kinds: &[Kind]| {
        let specs = blueprint.containers.iter().filter(|spec| kinds.contains(&spec.kind));
        let list: Vec<_> = specs
            .map(|spec| container_status::container_status(blueprint, spec, record, notes, now))
            .collect();
        (!list.is_empty()).then_some(list)
    };
    let mut status = core::PodStatus {
        container_statuses: list(&[Kind::Main]),
        init_container_statuses: list(&[Kind::Init, Kind::Sidecar]),
        ephemeral_container_statuses: list(&[Kind::Ephemeral]),
        host_ip: Some(node.host_ip.clone()),
        host_ips: Some(vec![core::HostIP { ip: node.host_ip.clone() }]),
        start_time: old.start_time.clone().or(Some(Time(notes.accepted.unwrap_or(now)))),
        qos_class: old.qos_class.clone().or_else(|| Some(qos::class(blueprint).to_string())),
        reason: end.as_ref().map(|end| end.reason.clone()).or(old_reason),
        message: end.as_ref().map(|end| end.message.clone()).or(old_message),
        observed_generation: blueprint.pod.metadata.generation,
        ..core::PodStatus::default()
    };
    status.phase = Some(phase(blueprint, record, end.is_some(), &status).to_owned());
    set_addresses(&mut status, blueprint, record, &old, node);
    if let (Some(failure), None) = (notes.failures.get(&Target::Pod), &status.message) {
        // Visible in `kubectl describe`, and gone with its cause.
        status.message = Some(failure.message.clone());
        status.reason = Some(failure.reason.to_owned());
    }
    status.conditions = Some(conditions::conditions(blueprint, record, notes, &old, &status, now));
    status
}

fn phase(blueprint: &Blueprint, record: &PodRecord, ended: bool, status: &core::PodStatus) -> &'static str {
    let old = blueprint.pod.status.as_ref().and_then(|status| status.phase.as_deref());
    match old {
        Some("Succeeded") => return "Succeeded",
        Some("Failed") => return "Failed",
        _ => {}
    }
    let newest = |name: &str| record.container(name);
    let mut main = blueprint.of_kind(Kind::Main).map(|spec| newest(&spec.spec.name));
    let ran_well = |container: Option<&ContainerRecord>| {
        container.and_then(ContainerRecord::exit_code).is_some_and(|code| code == 0)
    };
    let all_succeeded = blueprint.of_kind(Kind::Main).all(|spec| ran_well(newest(&spec.spec.name)));
    let over = finished(blueprint, record);
    let stopped = !record.anything_running();
    // A pod that must end before its time has failed, however well its containers took it.
    if ended && stopped {
        return "Failed";
    }
    // Sidecars, and whatever else still runs, end first: a pod whose phase is final uses nothing any more.
    let deleted = blueprint.deleted.is_some() && main.all(|c| c.is_some());
    if stopped && (over || deleted) {
        return if all_succeeded { "Succeeded" } else { "Failed" };
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
    blueprint: &Blueprint,
    record: &PodRecord,
    old: &core::PodStatus,
    node: &NodeAddress,
) {
    let sandbox = record.sandboxes.first();
    let ips: Vec<String> = match sandbox {
        Some(_) if blueprint.host_network() => vec![node.host_ip.clone()],
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
