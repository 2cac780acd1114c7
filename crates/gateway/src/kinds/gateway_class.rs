//! GatewayClass: who serves the Gateways that name it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::ObjectReference;
use crate::gateway_kind;

gateway_kind! {
    /// GatewayClass says which controller serves the Gateways that name it.
    GatewayClass("io.k8s.networking.gateway.v1.GatewayClass", "GatewayClass", "gatewayclasses", ClusterResourceScope):
        GatewayClassSpec, GatewayClassStatus
}

/// GatewayClassSpec names a controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GatewayClassSpec")]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// controllerName is a path with a domain, e.g. "minik8s.io/gateway-controller". It cannot be changed.
    pub controller_name: String,
    /// parametersRef is an object with settings for the controller. That of minik8s takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<ObjectReference>,
    /// description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// GatewayClassStatus says whether the controller has taken the class, and what it can do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GatewayClassStatus")]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassStatus {
    /// conditions of the class.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// supportedFeatures as the Gateway API's conformance tests name them, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub supported_features: Vec<SupportedFeature>,
}

/// SupportedFeature is something that the controller can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.SupportedFeature")]
#[serde(rename_all = "camelCase")]
pub struct SupportedFeature {
    /// name of the feature.
    pub name: String,
}
