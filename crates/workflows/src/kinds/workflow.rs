//! The fields of a Workflow.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_meta::served_type;
use minik8s_meta::{api_version, kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::any;

/// Workflow is a state machine in the Amazon States Language that WorkflowRuns run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Workflow")]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<Workflow>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<Workflow>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what the user wants.
    #[serde(default)]
    pub spec: WorkflowSpec,
}

/// WorkflowSpec is a definition, and how its runs are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.WorkflowSpec")]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSpec {
    /// type is Standard (every step is durable) or Express (in memory, at most five minutes). Standard by default.
    #[serde(rename = "type", default)]
    pub workflow_type: WorkflowType,
    /// definition in the Amazon States Language, as an object or as its JSON text; or in the simple form with
    /// "startAt" and "nodes".
    #[serde(default)]
    #[schemars(schema_with = "any")]
    pub definition: Value,
    /// history says which finished runs are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
}

/// WorkflowType is how runs are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.WorkflowType")]
pub enum WorkflowType {
    #[default]
    Standard,
    Express,
}

/// WorkflowHistory says which finished runs are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.WorkflowHistory")]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// successful runs that are kept, the newest. 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successful: Option<i64>,
    /// failed, stopped and timed out runs that are kept, the newest. 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i64>,
    /// ttlSeconds after its end a run goes. A week by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<i64>,
}

served_type!(Workflow: "minik8s.io" "v1" "Workflow" "workflows" NamespaceResourceScope);
