//! HTTPRoute: which requests go to which backends, and what happens to them on the way.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::filters::HttpFilter;
use super::shared::{BackendRef, ParentReference, RouteStatus};
use crate::gateway_kind;

gateway_kind! {
    /// HTTPRoute leads HTTP requests of Gateways to Services.
    HttpRoute("io.k8s.networking.gateway.v1.HTTPRoute", "HTTPRoute", "httproutes", NamespaceResourceScope):
        HttpRouteSpec, RouteStatus
}

/// HTTPRouteSpec is where requests of some hosts go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPRouteSpec")]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
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
    pub rules: Vec<HttpRouteRule>,
}

/// HTTPRouteRule leads the requests that it matches to backends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPRouteRule")]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteRule {
    /// name of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// matches, any of which is enough; every request by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub matches: Vec<HttpRouteMatch>,
    /// filters of requests and answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub filters: Vec<HttpFilter>,
    /// backendRefs share the requests by their weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub backend_refs: Vec<HttpBackendRef>,
    /// timeouts of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<HttpTimeouts>,
    /// retry of requests that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<HttpRetry>,
}

/// HTTPBackendRef is a backend with its share of the requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPBackendRef")]
#[serde(rename_all = "camelCase")]
pub struct HttpBackendRef {
    #[serde(flatten)]
    pub backend: BackendRef,
    /// filters of what this backend gets and answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub filters: Vec<HttpFilter>,
}

/// HTTPRouteMatch is what a request must be like in every respect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPRouteMatch")]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteMatch {
    /// path of the request; any by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<HttpPathMatch>,
    /// headers that the request must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub headers: Vec<HttpValueMatch>,
    /// queryParams that it must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub query_params: Vec<HttpValueMatch>,
    /// method of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

/// HTTPPathMatch is what a path must be like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPPathMatch")]
#[serde(rename_all = "camelCase")]
pub struct HttpPathMatch {
    /// type is Exact, PathPrefix (by whole elements) or RegularExpression (of the whole path).
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// value to compare with; "/" by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// HTTPValueMatch is what a header or a query parameter must be like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPValueMatch")]
#[serde(rename_all = "camelCase")]
pub struct HttpValueMatch {
    /// type is Exact or RegularExpression (of the whole value).
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// name of the header or parameter.
    pub name: String,
    /// value to compare with.
    pub value: String,
}

/// HTTPRouteTimeouts are durations such as "10s"; "0s" is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPRouteTimeouts")]
#[serde(rename_all = "camelCase")]
pub struct HttpTimeouts {
    /// request is until the answer to the client must have begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// backendRequest is the same for one try at one backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_request: Option<String>,
}

/// HTTPRouteRetry says which requests are sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPRouteRetry")]
#[serde(rename_all = "camelCase")]
pub struct HttpRetry {
    /// codes of answers that are no good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub codes: Vec<i32>,
    /// attempts after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i32>,
    /// backoff is the pause between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
}
