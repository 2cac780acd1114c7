//! How the proxies of nodes follow a RollingUpdate: what they are asked, and what they say.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::own::{api_version, kind};
use crate::served_type;

/// MeshUpdate asks nodes about a RollingUpdate of the Service that is under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshUpdate")]
#[serde(rename_all = "camelCase")]
pub struct MeshUpdate {
    /// name of the RollingUpdate.
    pub name: String,
    /// uid of the RollingUpdate.
    pub uid: String,
    /// draining pods get no new requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub draining: Vec<String>,
    /// inFlight asks whether requests to them are still under way: no proxy sends new ones.
    #[serde(default)]
    pub in_flight: bool,
}

/// MeshProgress says how far the proxies of one node are with a RollingUpdate. It is called UPDATE.NODE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshProgress")]
#[serde(rename_all = "camelCase")]
pub struct MeshProgress {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<MeshProgress>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<MeshProgress>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what the node's proxies do.
    #[serde(default)]
    pub spec: MeshProgressSpec,
}

/// MeshProgressSpec is what the proxies of one node do with requests to the Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.MeshProgressSpec")]
#[serde(rename_all = "camelCase")]
pub struct MeshProgressSpec {
    /// uid of the RollingUpdate.
    pub uid: String,
    /// routed are pods of the Service that every proxy of the node sends requests to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub routed: Vec<String>,
    /// changing are pods of which some proxies have not applied yet whether they get requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub changing: Vec<String>,
    /// idle are draining pods of this node to which no connection is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub idle: Vec<String>,
    /// before is what was counted until the update began.
    #[serde(default)]
    pub before: RequestTotals,
    /// since is what was counted from then on.
    #[serde(default)]
    pub since: RequestTotals,
}

/// RequestTotals counts requests to a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.RequestTotals")]
#[serde(rename_all = "camelCase")]
pub struct RequestTotals {
    /// total of the requests.
    #[serde(default)]
    pub total: u64,
    /// failed ones were answered with a code from 500 on.
    #[serde(default)]
    pub failed: u64,
}

served_type!(MeshProgress: "internal.minik8s.io" "v1" "MeshProgress" "meshprogresses" NamespaceResourceScope);

impl Default for MeshProgress {
    fn default() -> Self {
        MeshProgress {
            api_version: api_version::<Self>(),
            kind: kind::<Self>(),
            metadata: ObjectMeta::default(),
            spec: MeshProgressSpec::default(),
        }
    }
}
