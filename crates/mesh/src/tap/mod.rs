//! `minik8s mesh tap`: requests as they pass the proxies of pods, from the proxy over its agent and the API server to
//! whoever wants to see them.
//!
//! Which requests are wanted is decided in the proxy, so that a rare one is not lost among many; nobody on the way waits
//! for somebody slow, and whoever drops something says how much. Bodies, headers and queries are never told.

mod filter;
mod handler;

use std::time::{Duration, SystemTime};

use minik8s_proxy::TappedRequest;
use serde::{Deserialize, Serialize};

pub use filter::{TapFilter, TapMatcher};
pub use handler::{PATH, TapHandler, path};

/// A line of what a tap says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<TapEvent>,
    /// Requests that nobody had the time to tell of, since the last line that says so.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

/// A request whose answer is over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TapEvent {
    /// When it came, in milliseconds since 1970.
    pub at: u64,
    /// It came to the pod; else the pod has sent it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inbound: bool,
    /// Who sent it to the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// As whom they have proved to be.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Namespace and name, of what the pod sends.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// Address and port of who has answered, unless it was the proxy itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    pub method: String,
    /// Without the query.
    pub path: String,
    pub code: u16,
    /// Until the head of the answer.
    pub microseconds: u64,
    /// Of the answer's body.
    pub bytes: u64,
    /// The subset or the route that has led it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rule: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TapEvent {
    pub fn new(request: TappedRequest, inbound: bool) -> Self {
        let number = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let at: Duration = request.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        TapEvent {
            at: number(at.as_millis()),
            inbound,
            client: if inbound { request.client.to_string() } else { String::new() },
            identity: request.identity.filter(|_| inbound).map(|who| who.to_string()).unwrap_or_default(),
            service: request.label.to_string(),
            endpoint: request.endpoint.map(|address| address.to_string()).unwrap_or_default(),
            method: request.method,
            path: request.path,
            code: request.code,
            microseconds: number(request.took.as_micros()),
            bytes: request.bytes,
            rule: request.rule.unwrap_or_default(),
        }
    }
}
