//! What the router of a node tells of a Gateway.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::own::{api_version, kind};
use crate::served_type;

/// GatewayAck says that the router of one node answers for a Gateway. Its name is that of the Gateway, a dot, and the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayAck")]
#[serde(rename_all = "camelCase")]
pub struct GatewayAck {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<GatewayAck>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<GatewayAck>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what was applied.
    #[serde(default)]
    pub spec: GatewayAckSpec,
}

/// GatewayAckSpec is what the router of one node has applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayAckSpec")]
#[serde(rename_all = "camelCase")]
pub struct GatewayAckSpec {
    /// gateway is its name.
    pub gateway: String,
    /// revision of the GatewayConfig.
    pub revision: String,
    /// problems of ports that cannot be listened on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub problems: Vec<GatewayPortProblem>,
}

/// GatewayPortProblem is why a node does not answer at a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayPortProblem")]
#[serde(rename_all = "camelCase")]
pub struct GatewayPortProblem {
    /// routerPort that is meant.
    pub router_port: i32,
    /// message for people.
    pub message: String,
}

impl Default for GatewayAck {
    fn default() -> Self {
        GatewayAck {
            api_version: api_version::<GatewayAck>(),
            kind: kind::<GatewayAck>(),
            metadata: ObjectMeta::default(),
            spec: GatewayAckSpec::default(),
        }
    }
}

served_type!(GatewayAck: "internal.minik8s.io" "v1" "GatewayAck" "gatewayacks" NamespaceResourceScope);
