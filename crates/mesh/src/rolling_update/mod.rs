//! RollingUpdate: the pods of a Service, replaced batch by batch. What it must look like, and when it is looked at; the
//! decisions are in [`plan`].
//!
//! Requests leave a pod before it ends without anything being done here: a deleted pod's agent sends no signal before all
//! nodes have its address out of their rules.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use minik8s_api::{At, Cell, Column, FieldErrors, NameRule, Resource, Strategy, table};
use minik8s_meta::{api_version, kind, served_type};
use minik8s_runtime::{Caches, Controller, Key, Plan, Selector, Watches};
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
    #[serde(default)]
    pub new_pod_spec: PodSpec,
}

/// RollingUpdateStatus is how far a RollingUpdate is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.RollingUpdateStatus")]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateStatus {
    /// observedGeneration is the generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// phase is Draining, Drained, Creating, Created, Done or Failed.
    #[serde(default)]
    pub phase: String,
    /// total of the pods when it began.
    #[serde(default)]
    pub total: i32,
    /// updated pods that are ready.
    #[serde(default)]
    pub updated: i32,
    /// resumeTime is when the next step may be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_time: Option<Time>,
    /// message says why it does not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
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

impl Strategy for RollingUpdates {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let service = spec.field("serviceRef");
        if service.text().is_empty() {
            service.required(errors, "name a Service of this namespace");
        }
        for (field, low, high) in [("minimumAlive", 0, 10_000), ("interval", 0, 86_400), ("port", 1, 65_535)]
        {
            let at = spec.field(field);
            if at.exists() && !at.int().is_some_and(|number| (low..=high).contains(&number)) {
                at.invalid(errors, format!("must be between {low} and {high}"));
            }
        }
        let containers = spec.field("newPodSpec").field("containers");
        if containers.is_empty() {
            containers.required(errors, "say what the new pods run");
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(&["Name", "Service", "Phase", "Updated", "Age"], &["Message"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let count = |field: &str| table::text_or(&status[field], "0");
        vec![
            table::name(object),
            table::text_or(&spec["serviceRef"], table::NONE).into(),
            table::text_or(&status["phase"], "Pending").into(),
            format!("{}/{}", count("updated"), count("total")).into(),
            table::age(object, now),
            table::text_or(&status["message"], "").into(),
        ]
    }
}

pub struct RollingUpdateController;

/// All that a plan is made of.
pub struct Observed {
    pub update: Arc<RollingUpdate>,
    pub service: Option<Arc<Service>>,
    /// That the Service selects.
    pub pods: Vec<Arc<Pod>>,
}

impl Controller for RollingUpdateController {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "rolling-update-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<RollingUpdate>();
        watches.on::<Service>(|caches, service| of_namespace(caches, &service.metadata));
        watches.on::<Pod>(|caches, pod| of_namespace(caches, &pod.metadata));
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let update = caches.of::<RollingUpdate>().get(key)?;
        let service =
            caches.of::<Service>().get(&Key::new(&*key.namespace, update.spec.service_ref.as_str()));
        let labels = service.as_ref().and_then(|service| service.spec.as_ref()?.selector.as_ref());
        let selector = Selector::equal(labels);
        let mut pods = caches.of::<Pod>().in_namespace(&key.namespace);
        pods.retain(|pod| selector.matches_object(&pod.metadata));
        pods.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.metadata.name.clone()));
        Some(Observed { update, service, pods })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

/// Those that still go on.
fn of_namespace(caches: &Caches, meta: &ObjectMeta) -> Vec<Key> {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let all = caches.of::<RollingUpdate>().in_namespace(namespace);
    let goes_on =
        |one: &&Arc<RollingUpdate>| one.status.as_ref().is_none_or(|status| status.phase != plan::DONE);
    let name = |one: &Arc<RollingUpdate>| one.metadata.name.clone().unwrap_or_default();
    all.iter().filter(goes_on).map(|one| Key::new(namespace, name(one))).collect()
}
