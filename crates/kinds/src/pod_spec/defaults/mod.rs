//! What a pod spec says where its author said nothing.

mod container;
mod pod_level_requests;
mod quantities;
mod volume;

use serde_json::{Value, json};

use super::containers::{EPHEMERAL, INIT, MAIN};
use crate::fill;

pub(crate) use pod_level_requests::keep_missing_requests;
pub(crate) use quantities::{canonical_field, canonical_resources};
pub(crate) use volume::claim_template;

/// The spec of a template: what holds in a Pod too, but nothing that only a Pod gets.
pub(crate) fn template_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    fill::field(spec, "dnsPolicy", "ClusterFirst");
    fill::field(spec, "restartPolicy", "Always");
    fill::field(spec, "schedulerName", "default-scheduler");
    fill::field(spec, "terminationGracePeriodSeconds", 30);
    fill::object(spec, "securityContext");
    mirror_service_account(spec);
    canonical_resources(spec);
    canonical_field(spec, "overhead");
    for list in [INIT, MAIN, EPHEMERAL] {
        fill::items(spec, list).for_each(container::fill_in);
    }
    fill::items(spec, "volumes").for_each(volume::fill_in);
}

/// The spec of a Pod.
pub(crate) fn pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    template_spec(spec);
    fill::field(spec, "enableServiceLinks", true);
    let host_network = spec["hostNetwork"] == true;
    for list in [INIT, MAIN] {
        for container in fill::items(spec, list) {
            container::request_what_is_limited(container);
            if host_network {
                container::open_host_ports(container);
            }
        }
    }
    // The containers' own first: they are counted.
    pod_level_requests::fill_in(spec);
}

/// The deprecated `serviceAccount` and `serviceAccountName` always say the same.
fn mirror_service_account(spec: &mut Value) {
    let text = |field: &str| spec[field].as_str().filter(|t| !t.is_empty()).map(str::to_owned);
    if let Some(name) = text("serviceAccountName").or_else(|| text("serviceAccount")) {
        spec["serviceAccountName"] = json!(name);
        spec["serviceAccount"] = json!(name);
    }
}

#[cfg(test)]
mod tests;
