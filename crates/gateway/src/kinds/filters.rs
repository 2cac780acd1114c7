//! Filters: what happens to requests and answers on their way.

use minik8s_meta::gateway::{Cors, HeaderModifier, RequestRedirect, UrlRewrite};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::{BackendObjectReference, LocalObjectReference};

/// HTTPRouteFilter is one change, whose type says which of the other fields is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPRouteFilter")]
#[serde(rename_all = "camelCase")]
pub struct HttpFilter {
    /// type is RequestHeaderModifier, ResponseHeaderModifier, RequestMirror, RequestRedirect, URLRewrite, CORS or ExtensionRef.
    #[serde(rename = "type")]
    pub type_: String,
    /// requestHeaderModifier changes headers of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<HeaderModifier>,
    /// responseHeaderModifier changes headers of answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<HeaderModifier>,
    /// requestMirror sends a copy of requests to another backend, whose answers nobody waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_mirror: Option<RequestMirror>,
    /// requestRedirect answers with another place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<RequestRedirect>,
    /// urlRewrite changes host and path that the backend sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<UrlRewrite>,
    /// cors answers what browsers ask about other origins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
    /// extensionRef is a filter of another controller. That of minik8s has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension_ref: Option<LocalObjectReference>,
}

/// HTTPRequestMirrorFilter sends copies of requests to another backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.HTTPRequestMirrorFilter")]
#[serde(rename_all = "camelCase")]
pub struct RequestMirror {
    /// backendRef gets the copies.
    pub backend_ref: BackendObjectReference,
    /// percent of the requests; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<i32>,
    /// fraction of the requests, instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<Fraction>,
}

/// Fraction is a share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.k8s.networking.gateway.v1.Fraction")]
#[serde(rename_all = "camelCase")]
pub struct Fraction {
    /// numerator of the fraction.
    pub numerator: i32,
    /// denominator of the fraction; 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denominator: Option<i32>,
}
