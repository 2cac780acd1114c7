//! How a VirtualService bears failures, and how it makes them on purpose.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Retries says how often a failed request is sent again. One that may have had an effect is never repeated unless its
/// method says that this does no harm (GET, HEAD, OPTIONS, PUT, DELETE, TRACE).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Retries")]
#[serde(rename_all = "camelCase")]
pub struct Retries {
    /// attempts after the first, from 1 to 10.
    pub attempts: i32,
    /// on is what counts as failed: 5xx, gateway-error (502, 503, 504), connect-failure and reset; the last three by
    /// default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub on: Vec<String>,
    /// perTrySeconds until the answer to one attempt must have begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_try_seconds: Option<i32>,
}

/// Mirror sends copies of requests to a subset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Mirror")]
#[serde(rename_all = "camelCase")]
pub struct Mirror {
    /// subset is the name of a Subset of the same namespace.
    pub subset: String,
    /// percent of the requests, from 1 to 100; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<i32>,
}

/// Fault is what goes wrong on purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Fault")]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// abort answers requests in the place of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort: Option<Abort>,
    /// delay holds requests back before they are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
}

/// Abort answers some requests with an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Abort")]
#[serde(rename_all = "camelCase")]
pub struct Abort {
    /// percent of the requests, from 1 to 100.
    pub percent: i32,
    /// status is the code of the answer, from 400 to 599.
    pub status: i32,
}

/// Delay holds some requests back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Delay")]
#[serde(rename_all = "camelCase")]
pub struct Delay {
    /// percent of the requests, from 1 to 100.
    pub percent: i32,
    /// milliseconds from 1 to 60000.
    pub milliseconds: i32,
}

/// Outlier keeps requests from an endpoint that has failed several times in a row. At most half of the endpoints of a
/// rule are left out at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.Outlier")]
#[serde(rename_all = "camelCase")]
pub struct Outlier {
    /// failures in a row (5xx, or no answer) after which an endpoint is left out, from 1 to 100.
    pub failures: i32,
    /// ejectSeconds until it is tried again, from 1 to 3600.
    pub eject_seconds: i32,
}
