//! GRPCRoute: which calls go to which backends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::filters::HttpFilter;
use super::http_route::{HttpBackendRef, HttpValueMatch};
use super::shared::{ParentReference, RouteStatus};
use crate::gateway_kind;

gateway_kind! {
    /// GRPCRoute leads gRPC calls of Gateways to Services.
    GrpcRoute("io.k8s.networking.gateway.v1.GRPCRoute", "GRPCRoute", "grpcroutes", NamespaceResourceScope):
        GrpcRouteSpec, RouteStatus
}

/// GRPCRouteSpec is where calls of some hosts go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GRPCRouteSpec")]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteSpec {
    /// parentRefs are the Gateways, ListenerSets or Services that the route wants to be part of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub parent_refs: Vec<ParentReference>,
    /// hostnames that requests must be for: names or "*.name"; any by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub hostnames: Vec<String>,
    /// rules, of which the one with the most specific match counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub rules: Vec<GrpcRouteRule>,
}

/// GRPCRouteRule leads the calls that it matches to backends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GRPCRouteRule")]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteRule {
    /// name of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// matches, any of which is enough; every call by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub matches: Vec<GrpcRouteMatch>,
    /// filters of calls and answers: of headers, and copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub filters: Vec<HttpFilter>,
    /// backendRefs share the calls by their weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub backend_refs: Vec<HttpBackendRef>,
}

/// GRPCRouteMatch is what a call must be like in every respect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GRPCRouteMatch")]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteMatch {
    /// method that is called; any by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<GrpcMethodMatch>,
    /// headers that the call must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub headers: Vec<HttpValueMatch>,
}

/// GRPCMethodMatch is what is called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.GRPCMethodMatch")]
#[serde(rename_all = "camelCase")]
pub struct GrpcMethodMatch {
    /// type is Exact or RegularExpression.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// service of the method; any by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// method of the service; any by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}
