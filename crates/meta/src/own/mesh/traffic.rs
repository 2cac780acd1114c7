//! The fields of a MeshTraffic: what one workload asks of one Service, as the server computes it when asked for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::own::{api_version, kind};
use crate::served_type;

/// MeshTraffic is what one workload asks of one Service. In a namespace are those of its workloads and of its Services.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.MeshTraffic")]
#[serde(rename_all = "camelCase")]
pub struct MeshTraffic {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<MeshTraffic>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<MeshTraffic>")]
    pub kind: String,
    /// The name is made of both ends.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// source is the workload that asks, as NAMESPACE/NAME.
    pub source: String,
    /// service is what it asks, as NAMESPACE/NAME.
    pub service: String,
    /// requests since the proxies were started.
    pub requests: f64,
    /// errors among them: answers from 500 on.
    pub errors: f64,
    /// windowSeconds over which the rates below were measured; 0 where there is one reading only.
    pub window_seconds: f64,
    /// requestsPerSecond in the window.
    pub requests_per_second: f64,
    /// errorsPerSecond in the window.
    pub errors_per_second: f64,
    /// p50Milliseconds is a bound that half of the answers in the window kept to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_milliseconds: Option<f64>,
    /// p99Milliseconds is a bound that 99 of 100 answers in the window kept to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_milliseconds: Option<f64>,
}

served_type!(MeshTraffic: "minik8s.io" "v1" "MeshTraffic" "meshtraffic" NamespaceResourceScope);
