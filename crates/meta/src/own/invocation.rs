//! The fields of an Invocation: a call of a function that was accepted and will be carried out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::own::destination::{self, Destination};
use crate::own::{api_version, kind};
use crate::served_type;

/// Invocation is a call of a Function that nobody waits for: it is kept, carried out by the router of a node, tried again
/// where it may be, and has the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Invocation")]
#[serde(rename_all = "camelCase")]
pub struct Invocation {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<Invocation>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<Invocation>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is the call.
    #[serde(default)]
    pub spec: InvocationSpec,
    /// status is how far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<InvocationStatus>,
}

/// InvocationSpec is the call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.InvocationSpec")]
#[serde(rename_all = "camelCase")]
pub struct InvocationSpec {
    /// function of the same namespace.
    pub function: String,
    /// payload is the body of the request, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// contentType of the payload; application/json by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// node whose router carries it out; chosen by the control plane where it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// attempts at most; as many as the function's async.retries allow by default, which are 3 where it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i32>,
    /// ttlSeconds after its end it is deleted; 3600 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<i32>,
    /// backoffSeconds before the second attempt, doubled before each further one; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_seconds: Option<i32>,
    /// maxAgeSeconds after the call was accepted it is not tried again; the function's async.maxAgeSeconds by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<i32>,
    /// onSuccess gets the call and its result: a function's name, {function: NAME} or {workflow: NAME}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "destination::schema")]
    pub on_success: Option<Destination>,
    /// onFailure gets the call and its error after the last attempt: likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "destination::schema")]
    pub on_failure: Option<Destination>,
}

/// InvocationStatus is how far a call is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.InvocationStatus")]
#[serde(rename_all = "camelCase")]
pub struct InvocationStatus {
    /// phase is Running, Succeeded or Failed.
    #[serde(default)]
    pub phase: String,
    /// attempts that were made.
    #[serde(default)]
    pub attempts: i32,
    /// code of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// result is the body of the last answer, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// completionTime is when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
}

served_type!(Invocation: "minik8s.io" "v1" "Invocation" "invocations" NamespaceResourceScope);

impl Default for Invocation {
    fn default() -> Self {
        Invocation {
            api_version: api_version::<Invocation>(),
            kind: kind::<Invocation>(),
            metadata: ObjectMeta::default(),
            spec: InvocationSpec::default(),
            status: None,
        }
    }
}

impl Invocation {
    pub fn has_ended(&self) -> bool {
        self.status.as_ref().is_some_and(|status| matches!(status.phase.as_str(), "Succeeded" | "Failed"))
    }
}
