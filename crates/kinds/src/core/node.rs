//! Node: a machine that runs pods.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use crate::At;
use crate::fill;
use crate::table::{self, NONE, UNKNOWN};
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

pub(crate) fn resource() -> Resource {
    Resource::of::<Node>(Nodes).short(&["no"]).status().with(
        "proxy",
        "NodeProxyOptions",
        &["create", "delete", "get", "patch", "update"],
    )
}

struct Nodes;

impl Strategy for Nodes {
    fn keeps_status_on_create(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Value) {
        if let Some(status) = object.get_mut("status")
            && let Some(capacity) = status.get("capacity").cloned()
        {
            fill::field(status, "allocatable", capacity);
        }
        if let Some(spec) = fill::object(object, "spec") {
            settle_pod_cidrs(spec);
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        validate_taints(&spec.field("taints"), errors);
        let cidrs = spec.field("podCIDRs");
        for cidr in cidrs.items() {
            cidr.problems(errors, format::cidr(cidr.text()));
        }
        let ipv6 = cidrs.items().filter(|cidr| cidr.text().contains(':')).count();
        if cidrs.len() > 2 || (cidrs.len() == 2 && ipv6 != 1) {
            cidrs.invalid(errors, "may specify no more than one CIDR for each IP family");
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object).field("spec"), At::root(old).field("spec"));
        let (cidrs, old_cidrs) = (new.field("podCIDRs"), old.field("podCIDRs"));
        if old_cidrs.is_set() && cidrs.value != old_cidrs.value {
            cidrs.forbidden(errors, "node updates may not change podCIDR except from \"\" to valid");
        }
        let (provider, old_provider) = (new.field("providerID"), old.field("providerID"));
        if old_provider.is_set() && provider.value != old_provider.value {
            provider.forbidden(errors, "node updates may not change providerID except from \"\" to valid");
        }
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("spec.unschedulable", (object["spec"]["unschedulable"] == true).to_string())]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(
            &["Name", "Status", "Roles", "Age", "Version"],
            &["Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"],
        ))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let info = &object["status"]["nodeInfo"];
        vec![
            table::name(object),
            condition(object).into(),
            roles(object).into(),
            table::age(object, now),
            json!(table::text_or(&info["kubeletVersion"], "")),
            address(object, "InternalIP").into(),
            address(object, "ExternalIP").into(),
            table::text_or(&info["osImage"], UNKNOWN).into(),
            table::text_or(&info["kernelVersion"], UNKNOWN).into(),
            table::text_or(&info["containerRuntimeVersion"], UNKNOWN).into(),
        ]
    }
}

/// `podCIDR` is the first of `podCIDRs`: a writer who knows only one gets both.
fn settle_pod_cidrs(spec: &mut Value) {
    let first = spec["podCIDRs"][0].as_str().unwrap_or_default().to_owned();
    let single = spec["podCIDR"].as_str().unwrap_or_default().to_owned();
    if first.is_empty() && !single.is_empty() {
        spec["podCIDRs"] = json!([single]);
    } else if !first.is_empty() && first != single {
        spec["podCIDR"] = json!(first);
    }
}

fn validate_taints(taints: &At<'_>, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for taint in taints.items() {
        let (key, effect) = (taint.field("key"), taint.field("effect"));
        key.problems(errors, format::qualified_name(key.text()));
        taint.field("value").has_form(errors, format::label_value);
        effect.need_one_of(errors, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        if !seen.insert((key.text(), effect.text())) {
            taint.duplicate(errors);
        }
    }
}

fn condition(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let ready = match conditions.into_iter().find(|c| c["type"] == "Ready") {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match object["spec"]["unschedulable"] == true {
        true => format!("{ready},SchedulingDisabled"),
        false => ready.to_owned(),
    }
}

fn roles(object: &Value) -> String {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { NONE.to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn address(object: &Value, ty: &str) -> String {
    let mut addresses = object["status"]["addresses"].as_array().into_iter().flatten();
    addresses.find(|a| a["type"] == ty).map_or(NONE.to_owned(), |a| table::text_or(&a["address"], NONE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn defaults() {
        check::defaults(
            "nodes",
            json!({"spec": {"podCIDR": "10.1.0.0/24"}, "status": {"capacity": {"cpu": "2"}}}),
            json!({
                "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]},
                "status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}},
            }),
        );
    }

    #[test]
    fn validation() {
        check::errors(
            "nodes",
            json!({"spec": {
                "taints": [
                    {"key": "a", "effect": "NoSchedule"},
                    {"key": "a", "effect": "NoSchedule"},
                    {"key": "", "effect": "Never"},
                ],
                "podCIDRs": ["10.1.0.0/24", "10.1.1.0"],
            }}),
            &[
                "spec.taints[1]: Duplicate value: ",
                "spec.taints[2].key: Invalid value: \"\": name part must be non-empty",
                "spec.taints[2].key: Invalid value: \"\": name part must consist of",
                "spec.taints[2].effect: Unsupported value: \"Never\"",
                "spec.podCIDRs[1]: Invalid value: \"10.1.1.0\": must be a valid CIDR value",
                "spec.podCIDRs: Invalid value: [",
            ],
        );
        check::update_errors(
            "nodes",
            json!({"spec": {"podCIDR": "10.1.1.0/24"}}),
            json!({"spec": {"podCIDR": "10.1.0.0/24", "providerID": "x"}}),
            &["spec.podCIDRs: Forbidden: node updates", "spec.providerID: Forbidden: node updates"],
        );
    }

    #[test]
    fn columns() {
        check::row(
            "nodes",
            json!({
                "metadata": {
                    "name": "a",
                    "creationTimestamp": "2026-01-01T11:59:00Z",
                    "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": ""},
                },
                "spec": {"unschedulable": true},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                    "nodeInfo": {"kubeletVersion": "v1.37.0", "osImage": "Debian", "kernelVersion": "6.1"},
                },
            }),
            &[
                "a",
                "Ready,SchedulingDisabled",
                "control-plane,worker",
                "60s",
                "v1.37.0",
                "10.0.0.1",
                "<none>",
                "Debian",
                "6.1",
                "<unknown>",
            ],
        );
        check::row(
            "nodes",
            json!({"metadata": {"name": "a"}}),
            &[
                "a",
                "Unknown",
                "<none>",
                "<unknown>",
                "",
                "<none>",
                "<none>",
                "<unknown>",
                "<unknown>",
                "<unknown>",
            ],
        );
    }
}
