//! RollingUpdate as a kind: its fields, and what is refused.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use minik8s_api::{At, Cell, Column, FieldErrors, NameRule, Resource, Strategy, table};
use minik8s_meta::mesh::RequestTotals;
use minik8s_meta::{api_version, kind, served_type};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// RollingUpdate replaces the pods of a Service by pods of a new spec, some at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.RollingUpdate")]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<RollingUpdate>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<RollingUpdate>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what the user wants.
    #[serde(default)]
    pub spec: RollingUpdateSpec,
    /// status is how far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RollingUpdateStatus>,
}

/// RollingUpdateSpec says which pods are replaced, by what and how fast.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.RollingUpdateSpec")]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateSpec {
    /// serviceRef is a Service of the same namespace.
    pub service_ref: String,
    /// port of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// minimumAlive pods stay ready all the time; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_alive: Option<i32>,
    /// interval in seconds: half of it passes after pods were taken away, half after others have come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<i32>,
    /// newPodSpec is the spec of the pods that come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_pod_spec: Option<PodSpec>,
    /// images of containers by name: instead of newPodSpec, for pods that stay as they are but for these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, String>,
    /// maxErrors is by how many percent points more requests may fail than did before the update; 5 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_errors: Option<i32>,
    /// progressDeadlineSeconds for new pods to be ready; 600 by default. After that the update goes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
    /// abort: pods that were replaced are replaced again by such as there were.
    #[serde(default)]
    pub abort: bool,
}

/// RollingUpdateStatus is how far a RollingUpdate is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.RollingUpdateStatus")]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateStatus {
    /// observedGeneration is the generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// phase is Pending, Draining, Replacing, Verifying, Pausing, Done, Aborted or Failed.
    #[serde(default)]
    pub phase: String,
    /// total of the pods when it began.
    #[serde(default)]
    pub total: i32,
    /// updated pods that are ready.
    #[serde(default)]
    pub updated: i32,
    /// available pods are ready, old or new.
    #[serde(default)]
    pub available: i32,
    /// batch that is being replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// requests to the Service since it began, as proxies tell them.
    #[serde(default)]
    pub requests: RequestTotals,
    /// resumeTime is when the next step may be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_time: Option<Time>,
    /// rollback: it goes back, and the message says why.
    #[serde(default)]
    pub rollback: bool,
    /// message says why it does not go on, or why it goes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// oldPod is what pods were like when it began, to go back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_pod: Option<PodTemplateSpec>,
    /// history of batches that were replaced, the last twenty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<Batch>,
}

/// Batch is some pods that are replaced at a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.RollingUpdateBatch")]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// number of the batch, from 1 on.
    pub number: i32,
    /// pods that go.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub pods: Vec<String>,
    /// step is WeightZero (proxies stop sending requests), InFlight (those under way end), Deleting, Pause, Creating or
    /// Verifying (proxies begin to send requests to the new ones).
    #[serde(default)]
    pub step: String,
    /// since is when the step began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// waitingFor are nodes whose proxies have not followed yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub waiting_for: Vec<String>,
}

served_type!(RollingUpdate: "minik8s.io" "v1" "RollingUpdate" "rollingupdates" NamespaceResourceScope);

impl Default for RollingUpdate {
    fn default() -> Self {
        RollingUpdate {
            api_version: api_version::<Self>(),
            kind: kind::<Self>(),
            metadata: ObjectMeta::default(),
            spec: RollingUpdateSpec::default(),
            status: None,
        }
    }
}

pub fn resource() -> Resource {
    Resource::of::<RollingUpdate>(RollingUpdates).named(NameRule::Label).status().counted()
}

struct RollingUpdates;

/// Fields with the smallest and the largest value.
const NUMBERS: [(&str, i64, i64); 5] = [
    ("minimumAlive", 0, 10_000),
    ("interval", 0, 86_400),
    ("port", 1, 65_535),
    ("maxErrors", 0, 100),
    ("progressDeadlineSeconds", 1, 86_400),
];

impl Strategy for RollingUpdates {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let service = spec.field("serviceRef");
        if service.text().is_empty() {
            service.required(errors, "name a Service of this namespace");
        }
        for (field, low, high) in NUMBERS {
            let at = spec.field(field);
            if at.exists() && !at.int().is_some_and(|number| (low..=high).contains(&number)) {
                at.invalid(errors, format!("must be between {low} and {high}"));
            }
        }
        let (new, images) = (spec.field("newPodSpec"), spec.field("images"));
        let has_images = images.value.as_object().is_some_and(|images| !images.is_empty());
        match (new.is_set(), has_images) {
            (true, true) => images.invalid(errors, "must not be given beside newPodSpec"),
            (false, false) => new.required(errors, "say what the new pods run, or give images"),
            (true, false) if new.field("containers").is_empty() => {
                new.field("containers").required(errors, "say what the new pods run");
            }
            _ => {}
        }
        let empty = |value: &Value| value.as_str().is_none_or(str::is_empty);
        if images.value.as_object().is_some_and(|images| images.values().any(empty)) {
            images.invalid(errors, "must name an image for each container");
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        let shown = ["Name", "Service", "Phase", "Updated", "Requests", "Failed", "Age"];
        Some(table::texts_and_wide(&shown, &["Message"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let count = |value: &Value| table::text_or(value, "0");
        let phase = table::text_or(&status["phase"], "Pending");
        let is_over = matches!(phase.as_str(), "Done" | "Aborted" | "Failed");
        let back = if status["rollback"] == true && !is_over { " (going back)" } else { "" };
        vec![
            table::name(object),
            table::text_or(&spec["serviceRef"], table::NONE).into(),
            format!("{phase}{back}").into(),
            format!("{}/{}", count(&status["updated"]), count(&status["total"])).into(),
            count(&status["requests"]["total"]).into(),
            count(&status["requests"]["failed"]).into(),
            table::age(object, now),
            table::text_or(&status["message"], "").into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bad_updates_are_explained() {
        let check = |spec: Value, expected: &str| {
            let mut errors = FieldErrors::default();
            RollingUpdates.validate(&json!({"spec": spec}), &mut errors);
            let text = format!("{errors:?}");
            match expected {
                "" => assert_eq!(text, format!("{:?}", FieldErrors::default()), "{spec}"),
                expected => assert!(text.contains(expected), "{spec}: {text}"),
            }
        };
        let pod = json!({"containers": [{"name": "main", "image": "web:2"}]});
        check(json!({"serviceRef": "web", "newPodSpec": pod}), "");
        check(json!({"serviceRef": "web", "images": {"main": "web:2"}}), "");
        check(
            json!({"serviceRef": "web", "images": {"main": "web:2"}, "newPodSpec": pod}),
            "beside newPodSpec",
        );
        check(json!({"serviceRef": "web"}), "or give images");
        check(json!({"serviceRef": "web", "images": {"main": ""}}), "an image for each");
        check(json!({"serviceRef": "web", "newPodSpec": {}}), "say what the new pods run");
        check(json!({"newPodSpec": pod}), "name a Service");
        check(json!({"serviceRef": "web", "newPodSpec": pod, "maxErrors": 101}), "between 0 and 100");
    }
}
