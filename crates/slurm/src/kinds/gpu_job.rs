//! The fields of a GPUJob that users write.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_meta::{api_version, kind, served_type};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GpuJobStatus, SlurmOptions};

/// GPUJob is a program that is compiled and run on a Slurm cluster, and whose results are brought back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.GPUJob")]
#[serde(rename_all = "camelCase")]
pub struct GpuJob {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<GpuJob>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<GpuJob>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what the user wants.
    #[serde(default)]
    pub spec: GpuJobSpec,
    /// status is how far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<GpuJobStatus>,
}

/// GPUJobSpec says what to bring to the cluster, how to compile and run it there, and what to bring back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.GPUJobSpec")]
#[serde(rename_all = "camelCase")]
pub struct GpuJobSpec {
    /// cluster is the SlurmCluster of this namespace to run on; the only one there if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// source is what is brought to the cluster.
    #[serde(default)]
    pub source: Source,
    /// build is a shell command that runs on the login node, among the files, before submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// run is the shell command of the job itself. Required unless slurm.script is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// slurm holds the options of sbatch.
    #[serde(default)]
    pub slurm: SlurmOptions,
    /// results says what is brought back. The job's output always is.
    #[serde(default)]
    pub results: Results,
    /// cancelled ends the job on the cluster; the object stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<bool>,
    /// backoffLimit is how often a job that failed is submitted again. 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// ttlSecondsAfterFinished removes the object so long after its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Source is where the files come from. Several may be given; files win over the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.GPUJobSource")]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// files by their name, which may contain "/".
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// configMapRef names a ConfigMap whose keys are files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapSource>,
    /// volumeClaim names a PersistentVolumeClaim that holds the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_claim: Option<ClaimSource>,
}

/// ConfigMapSource names a ConfigMap of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.GPUJobConfigMapSource")]
pub struct ConfigMapSource {
    /// name of the ConfigMap.
    pub name: String,
}

/// ClaimSource is a folder in a PersistentVolumeClaim of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.GPUJobClaimSource")]
pub struct ClaimSource {
    /// name of the claim.
    pub name: String,
    /// path of the folder in it; its root if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Results says which files are brought back, and where they are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.GPUJobResults")]
pub struct Results {
    /// files are patterns with "*" and "?"; "**" crosses folders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// claim is a PersistentVolumeClaim that keeps them, in a folder with the job's name. By default they are kept
    /// with the job, up to 16 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
}

served_type!(GpuJob: "minik8s.io" "v1" "GPUJob" "gpujobs" NamespaceResourceScope);

impl GpuJob {
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Nobody wants it to run any more.
    pub fn is_unwanted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some() || self.spec.cancelled == Some(true)
    }

    pub fn attempt(&self) -> i32 {
        self.status.as_ref().map_or(0, |status| status.attempt)
    }

    /// The name of the Slurm job of an attempt. The UID is in it, because Slurm uses ids again after a crash.
    pub fn slurm_name(&self, attempt: i32) -> String {
        format!("{}-{}-{attempt}", self.name(), self.uid())
    }
}
