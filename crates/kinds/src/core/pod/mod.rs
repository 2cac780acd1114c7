//! Pod: containers that run together on one node.

mod addresses;
mod label_keys;
mod row;
mod tolerations;
mod update;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::At;
use crate::pod_spec::validation::{self, Place};
use crate::pod_spec::{defaults, qos, warnings};
use crate::table;
use crate::{Cell, Column, FieldErrors, FieldPath, Part, Resource, Strategy};

const CONNECT: &[&str] = &["create", "get"];
const CONNECT_ANY: &[&str] = &["create", "delete", "get", "patch", "update"];
const CHANGE: &[&str] = &["get", "patch", "update"];

pub(crate) fn resource() -> Resource {
    Resource::of::<Pod>(Pods)
        .short(&["po"])
        .in_all()
        .counted()
        .returns_deleted()
        .status()
        .with("attach", "PodAttachOptions", CONNECT)
        .with("binding", "Binding", &["create"])
        .with("ephemeralcontainers", "Pod", CHANGE)
        .with("eviction", "Eviction", &["create"])
        .with("exec", "PodExecOptions", CONNECT)
        .with("log", "Pod", &["get"])
        .with("portforward", "PodPortForwardOptions", CONNECT)
        .with("proxy", "PodProxyOptions", CONNECT_ANY)
        .with("resize", "Pod", CHANGE)
}

struct Pods;

impl Strategy for Pods {
    fn default(&self, pod: &mut Value) {
        if let Some(spec) = pod.get_mut("spec") {
            defaults::pod_spec(spec);
        }
        addresses::fill(pod);
    }

    fn prepare_create(&self, pod: &mut Value) {
        let mut status = json!({"phase": "Pending", "qosClass": qos::class(&pod["spec"])});
        if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            status["conditions"] = json!([{
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]);
        }
        pod["status"] = status;
        tolerations::tolerate_lost_nodes(&mut pod["spec"]);
        label_keys::write_into_selectors(pod);
    }

    fn prepare_update(&self, pod: &mut Value, old: &Value) {
        // The class is settled at creation; agents that report a status need not repeat it.
        let class = &old["status"]["qosClass"];
        if pod["status"].is_object() && pod["status"]["qosClass"].is_null() && !class.is_null() {
            pod["status"]["qosClass"] = class.clone();
        }
        // Whoever replaces the tolerations does not mean those that nobody wrote.
        if let Some(spec) = pod.get_mut("spec") {
            tolerations::tolerate_lost_nodes(spec);
            defaults::keep_missing_requests(spec, &old["spec"]);
        }
    }

    fn validate(&self, pod: &Value, errors: &mut FieldErrors) {
        validation::pod_spec(&At::root(pod).field("spec"), Place::Pod, errors);
    }

    fn validate_change(&self, subresource: &str, pod: &Value, old: &Value, errors: &mut FieldErrors) {
        match subresource {
            "" => update::validate(pod, old, errors),
            "ephemeralcontainers" => update::validate_ephemeral_containers(pod, old, errors),
            "resize" => update::validate_resize(pod, old, errors),
            "status" => addresses::validate(pod, errors),
            _ => {}
        }
    }

    fn warnings(&self, pod: &Value) -> Vec<String> {
        let pod = At::root(pod);
        let mut all = warnings::name(&pod, "the Pod's hostname");
        all.extend(warnings::of(&pod));
        all
    }

    fn selectable(&self, pod: &Value) -> Vec<(&'static str, String)> {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        vec![
            ("spec.nodeName", text(&spec["nodeName"])),
            ("spec.restartPolicy", text(&spec["restartPolicy"])),
            ("spec.schedulerName", text(&spec["schedulerName"])),
            ("spec.serviceAccountName", text(&spec["serviceAccountName"])),
            ("spec.hostNetwork", (spec["hostNetwork"] == true).to_string()),
            ("status.phase", text(&status["phase"])),
            ("status.podIP", text(row::address(status))),
            ("status.nominatedNodeName", text(&status["nominatedNodeName"])),
        ]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ]
    }

    /// Nodes watch their pods by name: every one of them looks at every change.
    fn selectable_parts(&self, field: &str) -> Option<&'static [Part]> {
        Some(match field {
            "spec.nodeName" => &[("spec", "nodeName")],
            "spec.restartPolicy" => &[("spec", "restartPolicy")],
            "spec.schedulerName" => &[("spec", "schedulerName")],
            "spec.serviceAccountName" => &[("spec", "serviceAccountName")],
            "spec.hostNetwork" => &[("spec", "hostNetwork")],
            "status.phase" => &[("status", "phase")],
            "status.podIP" => &[("status", "podIP"), ("status", "podIPs")],
            "status.nominatedNodeName" => &[("status", "nominatedNodeName")],
            _ => return None,
        })
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(
            &["Name", "Ready", "Status", "Restarts", "Age"],
            &["IP", "Node", "Nominated Node", "Readiness Gates"],
        ))
    }

    fn row(&self, pod: &Value, now: Timestamp) -> Vec<Cell> {
        row::cells(pod, now)
    }

    fn row_paths(&self) -> Option<&'static [FieldPath]> {
        Some(row::PATHS)
    }

    fn grace_seconds(&self, pod: &Value, requested: Option<i64>) -> i64 {
        let bound = pod["spec"]["nodeName"].as_str().is_some_and(|name| !name.is_empty());
        let over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if !bound || over {
            return 0;
        }
        let period = requested.or(pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30);
        if period < 0 { 1 } else { period }
    }
}

#[cfg(test)]
mod tests;
