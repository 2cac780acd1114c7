//! Service: a name and address for a changing set of pods.
//!
//! Addresses and node ports are allocated by the API server, which sees all Services; what is here judges
//! one Service alone.

mod addresses;
pub(crate) mod columns;
mod defaults;
mod update;
mod validate;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use serde_json::Value;

use crate::table;
use crate::{Cell, Column, FieldErrors, NameRule, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<Service>(Services)
        .created_by_put()
        .short(&["svc"])
        .in_all()
        .named(NameRule::Label)
        .status()
        .with("proxy", "ServiceProxyOptions", &["create", "delete", "get", "patch", "update"])
}

struct Services;

impl Strategy for Services {
    fn default(&self, object: &mut Value) {
        defaults::fill(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        addresses::fill_cluster_ips(object);
        object["status"] = serde_json::json!({ "loadBalancer": {} });
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        update::carry_over(object, old);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate::service(object, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        update::validate(object, old, errors);
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![
            ("spec.clusterIP", table::text_or(&object["spec"]["clusterIP"], "")),
            ("spec.type", table::text_or(&object["spec"]["type"], "")),
        ]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(columns::columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        columns::row(object, now)
    }
}

/// Reached from outside the cluster by a port or an address of its own.
fn externally_accessible(spec: &Value) -> bool {
    match spec["type"].as_str().unwrap_or_default() {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty()),
        _ => false,
    }
}

/// Nodes answer health checks for it, because some of them send traffic nowhere.
fn needs_health_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// All but those that are another name alone.
fn needs_cluster_ip(spec: &Value) -> bool {
    spec["type"] != "ExternalName"
}

fn is_headless(spec: &Value) -> bool {
    spec["clusterIP"] == "None" || spec["clusterIPs"][0] == "None"
}

#[cfg(test)]
mod tests;
