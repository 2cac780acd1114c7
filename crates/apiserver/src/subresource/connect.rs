//! What a connection to a pod, Service or node asks for, as an object that webhooks can look at.

use serde_json::{Value, json};

use crate::registry::Call;
use crate::request::Query;

/// `PodExecOptions` and its kin, from the query.
pub fn options(call: &Call, query: &Query) -> Value {
    let kind = match (call.served.plural.as_str(), call.subresource.as_str()) {
        ("services", _) => "ServiceProxyOptions",
        ("nodes", _) => "NodeProxyOptions",
        (_, "exec") => "PodExecOptions",
        (_, "attach") => "PodAttachOptions",
        (_, "portforward") => "PodPortForwardOptions",
        _ => "PodProxyOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if query.flag(flag) {
            options[flag] = true.into();
        }
    }
    for text in ["container", "path"] {
        if let Some(value) = query.get(text) {
            options[text] = value.into();
        }
    }
    let command: Vec<&str> = query.all("command").collect();
    if !command.is_empty() {
        options["command"] = json!(command);
    }
    let ports: Vec<i64> = query.all("ports").filter_map(|port| port.parse().ok()).collect();
    if !ports.is_empty() {
        options["ports"] = json!(ports);
    }
    options
}
