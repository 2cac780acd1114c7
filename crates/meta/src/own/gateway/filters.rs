//! What routes of the Gateway API do to requests and answers, as users write it and routers do it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// HTTPHeaderFilter changes headers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPHeaderFilter")]
#[serde(rename_all = "camelCase")]
pub struct HeaderModifier {
    /// set overwrites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub set: Vec<HttpHeader>,
    /// add appends to what is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub add: Vec<HttpHeader>,
    /// remove drops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub remove: Vec<String>,
}

/// HTTPHeader is a header.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPHeader")]
#[serde(rename_all = "camelCase")]
pub struct HttpHeader {
    /// name of the header.
    pub name: String,
    /// value of the header.
    pub value: String,
}

/// HTTPRequestRedirectFilter answers with another place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPRequestRedirectFilter")]
#[serde(rename_all = "camelCase")]
pub struct RequestRedirect {
    /// scheme of the place: http or https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// hostname of the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// path of the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
    /// port of the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// statusCode is 301, 302, 303, 307 or 308; 302 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
}

/// HTTPURLRewriteFilter changes what the backend sees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPURLRewriteFilter")]
#[serde(rename_all = "camelCase")]
pub struct UrlRewrite {
    /// hostname that the backend sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// path that the backend sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathModifier>,
}

/// HTTPPathModifier changes a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPPathModifier")]
#[serde(rename_all = "camelCase")]
pub struct PathModifier {
    /// type is ReplaceFullPath or ReplacePrefixMatch.
    #[serde(rename = "type")]
    pub type_: String,
    /// replaceFullPath takes the place of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_full_path: Option<String>,
    /// replacePrefixMatch takes the place of what was matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_prefix_match: Option<String>,
}

/// HTTPCORSFilter says which pages of other origins may ask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPCORSFilter")]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// allowOrigins are origins, with "*" for any part of a host or for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub allow_origins: Vec<String>,
    /// allowCredentials lets cookies and the like come along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_credentials: Option<bool>,
    /// allowMethods that may be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub allow_methods: Vec<String>,
    /// allowHeaders that may be sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub allow_headers: Vec<String>,
    /// exposeHeaders that pages may read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub expose_headers: Vec<String>,
    /// maxAge in seconds for which this may be remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<i32>,
}
