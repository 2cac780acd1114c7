//! The fields of NodeMetrics and PodMetrics, which are the same in both API versions.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::served_type;

/// NodeMetrics is what a node uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.metrics.pkg.apis.metrics.v1beta1.NodeMetrics")]
#[serde(rename_all = "camelCase")]
pub struct NodeMetrics {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default)]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default)]
    pub kind: String,
    /// Name and labels of the node.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// timestamp is the end of the interval that was measured.
    pub timestamp: Time,
    /// window is the length of the interval that CPU was averaged over.
    pub window: String,
    /// usage is CPU in cores and memory in bytes.
    pub usage: BTreeMap<String, Quantity>,
}

/// PodMetrics is what the containers of a pod use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics")]
#[serde(rename_all = "camelCase")]
pub struct PodMetrics {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default)]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default)]
    pub kind: String,
    /// Name, namespace and labels of the pod.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// timestamp is the end of the interval that was measured.
    pub timestamp: Time,
    /// window is the length of the interval that CPU was averaged over.
    pub window: String,
    /// containers are those that run.
    pub containers: Vec<ContainerMetrics>,
}

/// ContainerMetrics is what one container uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.metrics.pkg.apis.metrics.v1beta1.ContainerMetrics")]
#[serde(rename_all = "camelCase")]
pub struct ContainerMetrics {
    /// name of the container.
    pub name: String,
    /// usage is CPU in cores and memory in bytes.
    pub usage: BTreeMap<String, Quantity>,
}

served_type!(NodeMetrics: "metrics.k8s.io" "v1beta1" "NodeMetrics" "nodes" ClusterResourceScope);
served_type!(PodMetrics: "metrics.k8s.io" "v1beta1" "PodMetrics" "pods" NamespaceResourceScope);
