//! Routes of connections and packets: TLSRoute by SNI, TCPRoute and UDPRoute by port.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::{BackendRef, ParentReference, RouteStatus};
use crate::gateway_kind;

gateway_kind! {
    /// TLSRoute leads TLS connections by the name that the client asks for.
    TlsRoute("io.k8s.networking.gateway.v1.TLSRoute", "TLSRoute", "tlsroutes", NamespaceResourceScope):
        TlsRouteSpec, RouteStatus
}

gateway_kind! {
    /// TCPRoute leads TCP connections of a port.
    TcpRoute("io.k8s.networking.gateway.v1.TCPRoute", "TCPRoute", "tcproutes", NamespaceResourceScope):
        L4RouteSpec, RouteStatus
}

gateway_kind! {
    /// UDPRoute leads UDP packets of a port.
    UdpRoute("io.k8s.networking.gateway.v1.UDPRoute", "UDPRoute", "udproutes", NamespaceResourceScope):
        L4RouteSpec, RouteStatus
}

/// TLSRouteSpec is where connections for some names go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.TLSRouteSpec")]
#[serde(rename_all = "camelCase")]
pub struct TlsRouteSpec {
    /// parentRefs are the Gateways, ListenerSets or Services that the route wants to be part of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub parent_refs: Vec<ParentReference>,
    /// hostnames that requests must be for: names or "*.name"; any by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub hostnames: Vec<String>,
    /// rules; one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub rules: Vec<L4RouteRule>,
}

/// L4RouteSpec is where the connections of a port go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.L4RouteSpec")]
#[serde(rename_all = "camelCase")]
pub struct L4RouteSpec {
    /// parentRefs are the Gateways, ListenerSets or Services that the route wants to be part of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub parent_refs: Vec<ParentReference>,
    /// rules; one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub rules: Vec<L4RouteRule>,
}

/// L4RouteRule leads connections to backends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.L4RouteRule")]
#[serde(rename_all = "camelCase")]
pub struct L4RouteRule {
    /// name of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// backendRefs share the connections by their weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub backend_refs: Vec<BackendRef>,
}
