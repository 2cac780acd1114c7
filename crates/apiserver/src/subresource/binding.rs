//! `pods/binding`: the scheduler's decision.

use std::sync::Arc;

use http::Response;
use serde_json::{Value, json};

use super::success;
use crate::answer::Body;
use crate::api::Api;
use crate::error::{ApiError, Result};
use crate::object::{Object, object_at};
use crate::registry::{Call, timestamp};

/// Sets `spec.nodeName` once and for all.
pub async fn bind(api: &Arc<Api>, call: &Call, pod: &str, binding: &Value) -> Result<Response<Body>> {
    let target = &binding["target"];
    let node = target["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Err(ApiError::bad_request("target.name: the name of a node is required"));
    }
    if !matches!(target["kind"].as_str(), None | Some("" | "Node")) {
        return Err(ApiError::bad_request("target.kind: must be Node"));
    }
    let pods = api.registry.built_in("", "v1", "pods")?;
    let mut call = call.on(&call.namespace, pod);
    call.served = pods;
    call.subresource = "binding".to_owned();
    let conflict = |why: String| Err(ApiError::conflict(call.served.resource(), pod, why));
    api.registry
        .change(&call, |old| {
            let uid = binding.uid();
            if !uid.is_empty() && uid != old.uid() {
                return conflict(format!("the UID in the binding ({uid}) is not the pod's ({})", old.uid()));
            }
            if old.is_terminating() {
                return conflict(format!("pod {pod} is being deleted, cannot be assigned to a host"));
            }
            let bound = old["spec"]["nodeName"].as_str().unwrap_or_default();
            if !bound.is_empty() {
                return conflict(format!("pod {pod} is already assigned to node \"{bound}\""));
            }
            if old["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
                return conflict(format!("pod {pod} has non-empty .spec.schedulingGates"));
            }
            let mut new = old.clone();
            object_at(&mut new, "spec").insert("nodeName".into(), node.into());
            for (key, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
                let metadata = &mut new["metadata"];
                object_at(metadata, "annotations").insert(key.clone(), value.clone());
            }
            mark_scheduled(&mut new, &timestamp(call.now));
            Ok(new)
        })
        .await?;
    Ok(success(201))
}

fn mark_scheduled(pod: &mut Value, now: &str) {
    let condition =
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let status = object_at(pod, "status");
    match status.get_mut("conditions").and_then(Value::as_array_mut) {
        Some(conditions) => match conditions.iter_mut().find(|c| c["type"] == "PodScheduled") {
            Some(existing) => *existing = condition,
            None => conditions.push(condition),
        },
        None => drop(status.insert("conditions".into(), json!([condition]))),
    }
}
