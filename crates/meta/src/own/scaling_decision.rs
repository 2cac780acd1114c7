//! The fields of a ScalingDecision, as the autoscaler fills them in and `minik8s why hpa/NAME` reads them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::own::{api_version, kind};
use crate::served_type;

/// ScalingDecision is all that an autoscaler went by when it last decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.ScalingDecision")]
#[serde(rename_all = "camelCase")]
pub struct ScalingDecision {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<ScalingDecision>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<ScalingDecision>")]
    pub kind: String,
    /// Name and namespace of the HorizontalPodAutoscaler.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// at is when it was decided.
    pub at: Time,
    /// target is what is scaled, e.g. "Deployment/web".
    pub target: String,
    /// replicas that the target had.
    pub replicas: i32,
    /// minReplicas that were allowed.
    pub min_replicas: i32,
    /// maxReplicas that were allowed.
    pub max_replicas: i32,
    /// metrics in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<ScalingMetric>,
    /// wish is the largest of what the metrics asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<i32>,
    /// held says why recent wishes held this one back, if they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// limited says what bounded the change, if something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<String>,
    /// desired is the number of replicas that was decided on.
    pub desired: i32,
    /// verdict in one sentence.
    pub verdict: String,
}

/// ScalingMetric is what one metric said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.ScalingMetric")]
#[serde(rename_all = "camelCase")]
pub struct ScalingMetric {
    /// name of the metric.
    pub name: String,
    /// target for the average pod, e.g. "50%" or "200m".
    pub target: String,
    /// current is the average over the pods that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// ratio of current to target; within the tolerance nothing changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// query that the figure is the answer to, where it is not measured of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// tolerance below and above the target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerance: Vec<f64>,
    /// proposal is the number of replicas that this metric asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<i32>,
    /// problem says why it asks for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// pods with what was measured of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<ScalingPod>,
}

/// ScalingPod is one pod's part in a metric.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.ScalingPod")]
#[serde(rename_all = "camelCase")]
pub struct ScalingPod {
    /// name of the pod.
    pub name: String,
    /// state is how it counts: "measured", "not ready" or "not measured".
    pub state: String,
    /// amount that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
    /// request that a utilization is a share of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

served_type!(ScalingDecision: "minik8s.io" "v1" "ScalingDecision" "scalingdecisions" NamespaceResourceScope);
