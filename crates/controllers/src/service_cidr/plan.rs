//! Whether a ServiceCIDR is ready, and whether one that is being deleted may go. Pure.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, Plan, Target};
use serde_json::json;

use super::Observed;

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const HELD: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

pub(super) fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let range = &*seen.range;
    let finalizers = range.metadata.finalizers.clone().unwrap_or_default();
    let is_protected = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    match (is_going(range), is_protected) {
        (false, false) => {
            let all: Vec<&str> = finalizers.iter().map(String::as_str).chain([FINALIZER]).collect();
            plan.act(with_finalizers(range, &all));
        }
        (false, true) => {
            plan.status(range, with_ready(range, "True", "", "Kubernetes Service CIDR is ready", now))
        }
        (true, true) if is_needed(seen) => {
            plan.status(range, with_ready(range, "False", "Terminating", HELD, now));
        }
        (true, true) => {
            let rest: Vec<&str> =
                finalizers.iter().map(String::as_str).filter(|finalizer| *finalizer != FINALIZER).collect();
            plan.act(with_finalizers(range, &rest));
        }
        (true, false) => {}
    }
    plan
}

pub(super) fn is_going(range: &ServiceCIDR) -> bool {
    range.metadata.deletion_timestamp.is_some()
}

/// Whether there is an address that no other range has.
fn is_needed(seen: &Observed) -> bool {
    let covers = |range: &ServiceCIDR, address: &IpAddr| nets(range).iter().any(|net| net.contains(address));
    let mut own = seen.addresses.iter().filter(|address| covers(&seen.range, address));
    own.any(|address| !seen.others.iter().any(|other| covers(other, address)))
}

fn nets(range: &ServiceCIDR) -> Vec<IpNet> {
    let listed = range.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
    listed.filter_map(|net| net.parse().ok()).collect()
}

fn with_finalizers(range: &ServiceCIDR, all: &[&str]) -> Action {
    let patch = json!({"metadata": {"finalizers": all}});
    Action::Patch { target: Target::unchanged(range), subresource: None, patch }
}

/// The range with the condition `Ready`, as it is if that says so already.
fn with_ready(range: &ServiceCIDR, status: &str, reason: &str, message: &str, now: Timestamp) -> ServiceCIDR {
    let mut updated = range.clone();
    let conditions = updated.status.get_or_insert_default().conditions.get_or_insert_default();
    let is_told = conditions.iter().any(|one| {
        one.type_ == "Ready" && one.status == status && one.reason == reason && one.message == message
    });
    if is_told {
        return range.clone();
    }
    conditions.retain(|condition| condition.type_ != "Ready");
    conditions.push(Condition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(now),
        observed_generation: None,
    });
    updated
}
