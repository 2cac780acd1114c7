//! How long a pod stays bound to a node that is gone, unless it says so itself.

use serde_json::{Value, json};

use crate::fill;

const SECONDS: i64 = 300;

/// Adds a toleration of five minutes for each of the two taints of a lost node.
pub(super) fn tolerate_lost_nodes(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if fill::items(spec, "tolerations").any(|toleration| covers(toleration, taint)) {
            continue;
        }
        let toleration = json!({
            "key": taint,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": SECONDS,
        });
        match spec["tolerations"].as_array_mut() {
            Some(tolerations) => tolerations.push(toleration),
            None => spec["tolerations"] = json!([toleration]),
        }
    }
}

fn covers(toleration: &Value, taint: &str) -> bool {
    let empty_or = |field: &str, text: &str| {
        let value = toleration[field].as_str().unwrap_or_default();
        value.is_empty() || value == text
    };
    empty_or("key", taint) && empty_or("effect", "NoExecute")
}
