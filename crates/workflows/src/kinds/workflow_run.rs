//! The fields of a WorkflowRun.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use minik8s_asl::engine::Place;
use minik8s_meta::served_type;
use minik8s_meta::{api_version, kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::any;

/// WorkflowRun is one run of a Workflow. Its history is beside it: `minik8s workflow history`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.WorkflowRun")]
#[serde(rename_all = "camelCase")]
pub struct WorkflowRun {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<WorkflowRun>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<WorkflowRun>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what the user wants.
    #[serde(default)]
    pub spec: WorkflowRunSpec,
    /// status is how far the run is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<WorkflowRunStatus>,
}

/// WorkflowRunSpec says what to run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.WorkflowRunSpec")]
#[serde(rename_all = "camelCase")]
pub struct WorkflowRunSpec {
    /// workflow in the same namespace.
    #[serde(default)]
    pub workflow: String,
    /// input of the first state: any JSON value. The workflow's own "params", or an empty object, by default.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(schema_with = "any")]
    pub input: Option<Value>,
    /// idempotencyKey names the run: the same key and workflow are the same run. Then the name is made from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// iteration of a distributed Map that this run is, of another run. The engine sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<Iteration>,
    /// stop ends the run as Aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// redrives is how often the run shall go on from the state in which it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redrives: Option<i64>,
}

/// WorkflowRunIteration is which iteration of a distributed Map a run is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.WorkflowRunIteration")]
#[serde(rename_all = "camelCase")]
pub struct Iteration {
    /// run whose Map it is, in the same namespace. It runs the definition as that run began with it.
    #[serde(default)]
    pub run: String,
    /// map is the state, outermost first: "STATE" or "STATE/BRANCH" each.
    #[serde(default)]
    pub map: Vec<String>,
    /// index of the item.
    #[serde(default)]
    pub index: i64,
}

impl Iteration {
    pub fn new(run: &str, place: &[Place], index: i64) -> Self {
        let map = place.iter().map(|step| format!("{}/{}", step.state, step.branch)).collect();
        Iteration { run: run.to_owned(), map, index }
    }

    /// Where the Map is in the definition.
    pub fn place(&self) -> Vec<Place> {
        let step = |text: &String| match text.rsplit_once('/').map(|(state, branch)| (state, branch.parse()))
        {
            Some((state, Ok(branch))) => Place { state: state.to_owned(), branch },
            _ => Place { state: text.clone(), branch: 0 },
        };
        self.map.iter().map(step).collect()
    }
}

/// WorkflowRunStop is why somebody ends a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.WorkflowRunStop")]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// error, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// cause, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// WorkflowRunStatus is how far the run is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.WorkflowRunStatus")]
#[serde(rename_all = "camelCase")]
pub struct WorkflowRunStatus {
    /// phase is Running, Succeeded, Failed, TimedOut or Aborted; nothing before the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// definitionHash is of the definition that runs, whatever becomes of the Workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition_hash: Option<String>,
    /// currentStates are being executed, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub current_states: Vec<String>,
    /// output of a run that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(schema_with = "any")]
    pub output: Option<Value>,
    /// error is the name of what the run failed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// cause of the failure, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// startTime is when the first state was entered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// completionTime is when the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// events in the run's history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<i64>,
    /// historyBytes is what the history of a finished run takes in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_bytes: Option<i64>,
    /// redrives that were done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redrives: Option<i64>,
    /// coldStarts is how many tasks waited until an instance of their function had started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_starts: Option<i64>,
}

/// WorkflowRunPhase is how a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.WorkflowRunPhase")]
pub enum Phase {
    Running,
    Succeeded,
    Failed,
    TimedOut,
    Aborted,
}

served_type!(WorkflowRun: "minik8s.io" "v1" "WorkflowRun" "workflowruns" NamespaceResourceScope);

/// `null` is a value too.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Phase {
    pub fn is_over(self) -> bool {
        self != Phase::Running
    }
}

impl WorkflowRun {
    pub fn phase(&self) -> Option<Phase> {
        self.status.as_ref().and_then(|status| status.phase)
    }

    pub fn is_over(&self) -> bool {
        self.phase().is_some_and(Phase::is_over)
    }

    /// It is over, and nobody asks for more.
    pub fn is_settled(&self) -> bool {
        self.is_over() && !self.wants_redrive()
    }

    pub fn wants_redrive(&self) -> bool {
        let done = self.status.as_ref().and_then(|status| status.redrives).unwrap_or(0);
        let redrivable = matches!(self.phase(), Some(Phase::Failed | Phase::TimedOut | Phase::Aborted));
        redrivable && self.spec.redrives.unwrap_or(0) > done
    }
}
