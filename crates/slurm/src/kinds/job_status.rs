//! How far a GPUJob is, as its program reports it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// GPUJobStatus is how far a job is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.GPUJobStatus")]
#[serde(rename_all = "camelCase", default)]
pub struct GpuJobStatus {
    /// state is Pending, Uploading, Compiling, Queued, Running, Fetching, Completed, Failed, Cancelled or TimedOut.
    #[serde(rename = "state")]
    pub phase: Phase,
    /// reason in one word, of Slurm or our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// message says more: a compiler's words, Slurm's refusal, when it is expected to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// cluster is the SlurmCluster that the job runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// slurmID is Slurm's number of the job.
    #[serde(rename = "slurmID", skip_serializing_if = "Option::is_none")]
    pub slurm_id: Option<i64>,
    /// attempt counts from 0; a job with a backoffLimit is submitted again when it failed.
    pub attempt: i32,
    /// partition that Slurm chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// nodes that Slurm chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// submitTime is when it was first seen in Slurm's queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submit_time: Option<Time>,
    /// startTime is when it was first seen running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// completionTime is when its end was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// unreachableSince is when the cluster was last reached, while it cannot be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<Time>,
    /// exitCode of the program, of the worst task of an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// signal that ended the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// directory of the job on the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// cleaned says that nothing of the job is left on the cluster.
    pub cleaned: bool,
    /// tasks of a job array.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskStatus>,
    /// accounting is what Slurm has counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounting: Option<Accounting>,
    /// results that were brought back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultFile>,
    /// conditions: Complete or Failed, as Jobs have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Phase is how far a job is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.GPUJobState")]
pub enum Phase {
    #[default]
    Pending,
    Uploading,
    Compiling,
    Queued,
    Running,
    Fetching,
    Completed,
    Failed,
    Cancelled,
    TimedOut,
}

impl Phase {
    pub fn is_over(self) -> bool {
        matches!(self, Phase::Completed | Phase::Failed | Phase::Cancelled | Phase::TimedOut)
    }
}

/// TaskStatus is one task of a job array.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.GPUJobTaskStatus")]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// index in the array.
    pub index: i64,
    /// state in Slurm's words.
    pub state: String,
    /// exitCode of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// Accounting is what sacct says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.GPUJobAccounting")]
#[serde(rename_all = "camelCase")]
pub struct Accounting {
    /// elapsed time, as Slurm writes it.
    pub elapsed: String,
    /// totalCPU time of system and user.
    #[serde(rename = "totalCPU", default)]
    pub total_cpu: String,
    /// maxRSS is the most memory that a task had.
    #[serde(rename = "maxRSS", default)]
    pub max_rss: String,
    /// allocTRES is what the job had: CPUs, memory, GPUs.
    #[serde(rename = "allocTRES", default)]
    pub alloc_tres: String,
}

/// ResultFile is a file that was brought back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.GPUJobResultFile")]
#[serde(rename_all = "camelCase")]
pub struct ResultFile {
    /// name, relative to the job's folder.
    pub name: String,
    /// size in bytes.
    pub size: i64,
    /// sha256 of the content.
    pub sha256: String,
    /// problem says why it could not be brought back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// parts are the ConfigMaps that keep it, in their order, where no claim does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
}
