//! Which instance answered, and whether its start was waited for: told to callers that ask, so that a workflow's history
//! can say so and find the log. Others learn no pod's name, and what an instance says of itself is not believed.

use std::net::SocketAddr;

use http::HeaderMap;
use http::header::HeaderValue;

use crate::gate::Gate;

/// A caller asks with this header.
const ASK: &str = "minik8s-tell";
const INSTANCE: &str = "minik8s-instance";
const START: &str = "minik8s-start";

/// What a caller has asked for; the function does not see it.
pub(super) fn is_asked(headers: &mut HeaderMap) -> bool {
    headers.remove(ASK).is_some_and(|what| what == "instance")
}

/// Adds it to an answer. `cold` is unknown for an answer that was kept.
pub(super) fn tell(headers: &mut HeaderMap, gate: &Gate, address: SocketAddr, cold: Option<bool>) {
    headers.remove(INSTANCE);
    headers.remove(START);
    if let Some(pod) = gate.pod_at(address).and_then(|pod| HeaderValue::from_str(&pod).ok()) {
        headers.insert(INSTANCE, pod);
    }
    if let Some(cold) = cold {
        headers.insert(START, HeaderValue::from_static(if cold { "cold" } else { "warm" }));
    }
}
