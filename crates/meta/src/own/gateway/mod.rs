//! What the Gateway API's controller tells the routers of nodes: every reference resolved, every conflict decided.
//!
//! Routers find endpoints themselves, so that this changes with what users write, not with pods.

mod ack;
mod filters;
mod service_route;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use ack::{GatewayAck, GatewayAckSpec, GatewayPortProblem};
pub use filters::{Cors, HeaderModifier, HttpHeader, PathModifier, RequestRedirect, UrlRewrite};
pub use service_route::{RouteClients, ServiceRoute, ServiceRoutePort, ServiceRouteSpec, ServiceRouteStatus};

use crate::own::{api_version, kind};
use crate::served_type;

/// GatewayConfig tells routers what was made of the Gateway of the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayConfig")]
#[serde(rename_all = "camelCase")]
pub struct GatewayConfig {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<GatewayConfig>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<GatewayConfig>")]
    pub kind: String,
    /// Standard object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is what a router must know.
    #[serde(default)]
    pub spec: GatewayConfigSpec,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        GatewayConfig {
            api_version: api_version::<GatewayConfig>(),
            kind: kind::<GatewayConfig>(),
            metadata: ObjectMeta::default(),
            spec: GatewayConfigSpec::default(),
        }
    }
}

served_type!(GatewayConfig: "internal.minik8s.io" "v1" "GatewayConfig" "gatewayconfigs" NamespaceResourceScope);

/// GatewayConfigSpec is what routers answer for one Gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayConfigSpec")]
#[serde(rename_all = "camelCase")]
pub struct GatewayConfigSpec {
    /// revision changes with listeners and their ports, not with routes: nodes acknowledge it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// created is when the Gateway was, in RFC 3339: the older one has a host of the nodes' own ports.
    #[serde(default)]
    pub created: String,
    /// ports of the Gateway's address.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ports: Vec<GatewayPort>,
    /// rules that matches name by their number.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub rules: Vec<GatewayRule>,
}

/// GatewayPort is one port of a Gateway's address.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayPort")]
#[serde(rename_all = "camelCase")]
pub struct GatewayPort {
    /// port of the Gateway.
    pub port: i32,
    /// routerPort at which the routers of all nodes answer for it.
    pub router_port: i32,
    /// protocol is HTTP, TLS (some or all of it ended here), TCP or UDP.
    pub protocol: String,
    /// listeners of the port.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub listeners: Vec<GatewayListener>,
}

/// GatewayListener is a part of a port's requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayListener")]
#[serde(rename_all = "camelCase")]
pub struct GatewayListener {
    /// hostname that requests are for; empty for any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// mode is HTTP for requests, Passthrough for TLS that backends end, Stream for all else.
    pub mode: String,
    /// certificates to show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub certificates: Vec<CertificateRef>,
    /// clients are let in by their certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<GatewayClients>,
    /// hosts of routes, the most specific first.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub hosts: Vec<GatewayHost>,
}

/// GatewayClients says which certificates of clients are good.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayClients")]
#[serde(rename_all = "camelCase")]
pub struct GatewayClients {
    /// authorities in PEM, one of which has signed them.
    pub authorities: String,
    /// insecureFallback lets in whoever has another one, or none.
    #[serde(default)]
    pub insecure_fallback: bool,
    /// certificates to show. They are here and not with the listener's own, so that a router that knows nothing of clients
    /// has none to show and lets nobody in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub certificates: Vec<CertificateRef>,
}

/// CertificateRef is a Secret of the type kubernetes.io/tls.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.CertificateRef")]
#[serde(rename_all = "camelCase")]
pub struct CertificateRef {
    /// namespace of the Secret.
    pub namespace: String,
    /// name of the Secret.
    pub name: String,
}

/// GatewayHost is what routes say of one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayHost")]
#[serde(rename_all = "camelCase")]
pub struct GatewayHost {
    /// hostname of routes and listener together; empty for any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// public hosts are answered at the nodes' own ports, too.
    #[serde(default)]
    pub public: bool,
    /// matches in the order in which they are tried.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub matches: Vec<GatewayMatch>,
}

/// GatewayMatch is what a request must be like for a rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayMatch")]
#[serde(rename_all = "camelCase")]
pub struct GatewayMatch {
    /// path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMatch>,
    /// method of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// headers that it must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub headers: Vec<ValueMatch>,
    /// query parameters that it must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub query: Vec<ValueMatch>,
    /// rule is the number of the rule.
    pub rule: usize,
}

/// PathMatch is what a path must be like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.PathMatch")]
#[serde(rename_all = "camelCase")]
pub struct PathMatch {
    /// kind is Exact, PathPrefix or RegularExpression.
    pub kind: String,
    /// value to compare with.
    pub value: String,
}

/// ValueMatch is what a header or query parameter must be like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.ValueMatch")]
#[serde(rename_all = "camelCase")]
pub struct ValueMatch {
    /// name of the header, in lower case, or parameter.
    pub name: String,
    /// value to compare with.
    pub value: String,
    /// regex: the value is a regular expression.
    #[serde(default)]
    pub regex: bool,
}

/// GatewayRule is what becomes of the requests of one rule of a route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayRule")]
#[serde(rename_all = "camelCase")]
pub struct GatewayRule {
    /// route is kind, namespace and name of the route.
    pub route: String,
    /// prefix of the path that requests were matched by, where filters take it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// filters of all backends.
    #[serde(default)]
    pub filters: GatewayFilters,
    /// backends that share the requests.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub backends: Vec<GatewayBackend>,
    /// requestTimeoutMillis is for all tries together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_timeout_millis: Option<u64>,
    /// backendTimeoutMillis is for one try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_timeout_millis: Option<u64>,
    /// retry of requests that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<GatewayRetry>,
}

/// GatewayRetry says which requests are sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayRetry")]
#[serde(rename_all = "camelCase")]
pub struct GatewayRetry {
    /// codes of answers that are no good.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub codes: Vec<u16>,
    /// attempts after the first.
    pub attempts: u32,
    /// backoffMillis between two.
    #[serde(default)]
    pub backoff_millis: u64,
}

/// GatewayFilters is what happens to requests and answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayFilters")]
#[serde(rename_all = "camelCase")]
pub struct GatewayFilters {
    /// requestHeaders are changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<HeaderModifier>,
    /// responseHeaders are changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<HeaderModifier>,
    /// redirect answers with another place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<RequestRedirect>,
    /// rewrite changes what the backend sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<UrlRewrite>,
    /// cors answers browsers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
    /// mirrors get copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub mirrors: Vec<GatewayMirror>,
}

impl GatewayFilters {
    pub fn is_empty(&self) -> bool {
        *self == GatewayFilters::default()
    }
}

/// GatewayMirror gets copies of a share of the requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayMirror")]
#[serde(rename_all = "camelCase")]
pub struct GatewayMirror {
    /// target gets the copies.
    pub target: GatewayTarget,
    /// numerator of the share.
    pub numerator: u32,
    /// denominator of the share.
    pub denominator: u32,
}

/// GatewayBackend is a share of a rule's requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayBackend")]
#[serde(rename_all = "camelCase")]
pub struct GatewayBackend {
    /// weight is its share.
    #[serde(default)]
    pub weight: u32,
    /// target gets the requests.
    pub target: GatewayTarget,
    /// filters of this backend alone.
    #[serde(default)]
    pub filters: GatewayFilters,
}

/// GatewayTarget is a port of a Service, or why there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayTarget")]
#[serde(rename_all = "camelCase")]
pub struct GatewayTarget {
    /// namespace of the Service.
    #[serde(default)]
    pub namespace: String,
    /// service is its name.
    #[serde(default)]
    pub service: String,
    /// port of the Service.
    #[serde(default)]
    pub port: i32,
    /// udp: the port is of that protocol, not of TCP.
    #[serde(default)]
    pub udp: bool,
    /// h2c: it speaks HTTP/2 only.
    #[serde(default)]
    pub h2c: bool,
    /// tls it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayBackendTls>,
    /// problem: requests for it are answered with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// GatewayBackendTLS is how TLS is spoken with a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.GatewayBackendTLS")]
#[serde(rename_all = "camelCase")]
pub struct GatewayBackendTls {
    /// hostname that is asked for.
    pub hostname: String,
    /// authorities in PEM that may have signed its certificate; those of the node if empty.
    #[serde(default)]
    pub authorities: String,
    /// names, one of which the certificate must have, as "DNS:name" or "URI:uri".
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub names: Vec<String>,
    /// certificate that the Gateway shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateRef>,
}

/// Whether a host name is covered by a pattern: the same, below `*.name` at any depth, or any for an empty one.
pub fn host_matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        _ if pattern.is_empty() => true,
        Some(above) => host.strip_suffix(above).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => pattern == host,
    }
}

/// The smaller, the more specific.
pub type HostOrder = (bool, std::cmp::Reverse<usize>);

/// How specific a pattern is: exact names before wildcards, long ones before short ones, any last.
pub fn host_order(pattern: &str) -> HostOrder {
    (pattern.is_empty() || pattern.starts_with("*."), std::cmp::Reverse(pattern.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (pattern, host, expected) in [
            ("", "a.b", true),
            ("a.b", "a.b", true),
            ("a.b", "x.a.b", false),
            ("*.b", "a.b", true),
            ("*.b", "x.a.b", true),
            ("*.b", "b", false),
            ("*.b", "ab", false),
            ("*.b", ".b", false),
        ] {
            assert_eq!(host_matches(pattern, host), expected, "{pattern} {host}");
        }
        let mut all = ["", "*.b", "a.b", "*.a.b", "x.a.b"];
        all.sort_by_key(|pattern| host_order(pattern));
        assert_eq!(all, ["x.a.b", "a.b", "*.a.b", "*.b", ""]);
    }
}
