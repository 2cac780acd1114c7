//! The fields of a Trigger: what calls a function, or starts a workflow, by itself.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::own::{api_version, kind};
use crate::served_type;

/// Policies of schedules for calls that have not ended.
pub const CONCURRENCY_POLICIES: [&str; 2] = ["Allow", FORBID];
pub const FORBID: &str = "Forbid";
/// Whether the trigger can fire.
pub const READY: &str = "Ready";

/// Trigger calls a Function, or starts a Workflow, at certain times or when something happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Trigger")]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<Trigger>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<Trigger>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is when it fires and what is called.
    #[serde(default)]
    pub spec: TriggerSpec,
    /// status is when it fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TriggerStatus>,
}

/// TriggerSpec is when a trigger fires and what is called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerSpec")]
#[serde(rename_all = "camelCase")]
pub struct TriggerSpec {
    /// source is what makes it fire: exactly one of its fields.
    pub source: TriggerSource,
    /// target is what is called.
    pub target: TriggerTarget,
    /// input of the call, instead of the event: text as it is, or any JSON value in which texts of the form "{% … %}" are
    /// JSONata expressions that see $event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any")]
    pub input: Option<Value>,
    /// retry is how often a call of a function is tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<TriggerRetry>,
    /// deadLetter is a function that gets what failed after the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<String>,
    /// suspend stops it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

/// TriggerRetry is how often a call is tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerRetry")]
#[serde(rename_all = "camelCase")]
pub struct TriggerRetry {
    /// attempts at most for each event; 3 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i32>,
    /// backoffSeconds before the second attempt, doubled before each further one; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_seconds: Option<i32>,
    /// maxAgeSeconds after the event it is not tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<i32>,
}

/// TriggerSource is what makes a trigger fire.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerSource")]
#[serde(rename_all = "camelCase")]
pub struct TriggerSource {
    /// schedule fires at certain times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<TriggerSchedule>,
    /// webhook fires for signed requests to /fn/NAMESPACE/-/hooks/NAME on every node's router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<TriggerWebhook>,
    /// cloudEvents fires for CloudEvents that are posted to /fn/NAMESPACE/-/events on every node's router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_events: Option<TriggerCloudEvents>,
    /// object fires when Kubernetes objects of the same namespace change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<TriggerObject>,
    /// file fires when files in a volume change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<TriggerFile>,
    /// nats fires for messages of a subject of a NATS server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<TriggerNats>,
}

/// TriggerNats is which messages fire a trigger.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerNats")]
#[serde(rename_all = "camelCase")]
pub struct TriggerNats {
    /// url of the server as pods of the namespace reach it, e.g. nats://nats:4222.
    pub url: String,
    /// subject of the messages; * stands for a word, > at the end for all that follow.
    pub subject: String,
    /// group of which one listener gets each message; all get it by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// secretRef is a Secret with the keys user and password, or token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<TriggerNatsSecret>,
}

/// TriggerNatsSecret is a Secret of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerNatsSecret")]
#[serde(rename_all = "camelCase")]
pub struct TriggerNatsSecret {
    /// name of the Secret.
    #[serde(default)]
    pub name: String,
}

/// TriggerSchedule fires at certain times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerSchedule")]
#[serde(rename_all = "camelCase")]
pub struct TriggerSchedule {
    /// cron is the schedule in the form of a CronJob's.
    pub cron: String,
    /// timeZone of the schedule, e.g. Europe/Berlin; UTC by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// concurrencyPolicy Forbid leaves out moments at which a call of the trigger has not ended; Allow by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_policy: Option<String>,
}

/// TriggerWebhook fires for signed requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerWebhook")]
#[serde(rename_all = "camelCase")]
pub struct TriggerWebhook {
    /// secretRef is the key with which senders sign the body (HMAC-SHA256, header X-Hub-Signature-256).
    #[serde(default)]
    pub secret_ref: TriggerSecret,
}

/// TriggerSecret is one value of a Secret of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerSecret")]
#[serde(rename_all = "camelCase")]
pub struct TriggerSecret {
    /// name of the Secret.
    #[serde(default)]
    pub name: String,
    /// key in it; the only one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// TriggerCloudEvents chooses among the events that are posted to a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerCloudEvents")]
#[serde(rename_all = "camelCase")]
pub struct TriggerCloudEvents {
    /// types of which one must be the event's; * at the end stands for anything. All by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// filter is attributes that the event must have; * at the end of a value stands for anything.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filter: BTreeMap<String, String>,
    /// secretRef, if given, is the key with which senders must sign the body, as those of webhooks do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<TriggerSecret>,
}

/// TriggerObject is which Kubernetes objects fire a trigger.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerObject")]
#[serde(rename_all = "camelCase")]
pub struct TriggerObject {
    /// apiVersion of the objects.
    pub api_version: String,
    /// kind of the objects.
    pub kind: String,
    /// labelSelector that they must match; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// events of Added, Modified and Deleted; all by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// serviceAccountName is whose right to watch these objects is needed; default by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
}

/// TriggerFile is which files fire a trigger.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerFile")]
#[serde(rename_all = "camelCase")]
pub struct TriggerFile {
    /// claimName of the PersistentVolumeClaim with the files.
    pub claim_name: String,
    /// path of a folder in the volume; the whole volume by default. Folders in it are looked at too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// events of Created, Modified and Removed; all by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// pattern of the files' names, e.g. *.jpg; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// TriggerTarget is what is called: a function or a workflow of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerTarget")]
#[serde(rename_all = "camelCase")]
pub struct TriggerTarget {
    /// function that is called with the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// workflow of which a run is started with the event as its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
}

/// TriggerStatus is when a trigger fired.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.TriggerStatus")]
#[serde(rename_all = "camelCase")]
pub struct TriggerStatus {
    /// lastFired is when it fired last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fired: Option<Time>,
    /// nextFire is when it will fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_fire: Option<Time>,
    /// fired is how often it did.
    #[serde(default)]
    pub fired: i64,
    /// failed calls among those that are still kept.
    #[serde(default)]
    pub failed: i64,
    /// address on every node's router where events are posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// resourceVersion up to which changes of objects were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// conditions: Ready (it can fire).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Any JSON value.
fn any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

served_type!(Trigger: "minik8s.io" "v1" "Trigger" "triggers" NamespaceResourceScope);

impl Default for Trigger {
    fn default() -> Self {
        Trigger {
            api_version: api_version::<Trigger>(),
            kind: kind::<Trigger>(),
            metadata: ObjectMeta::default(),
            spec: TriggerSpec::default(),
            status: None,
        }
    }
}
