//! `pods/binding`: the scheduler's decision.
//!
//! Every pod is bound once, and little of it matters for that: the rest stays the text that it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use minik8s_api::FieldErrors;
use minik8s_store::Entry;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
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
    let mut call = call.on(&call.namespace, pod);
    call.served = api.registry.built_in("", "v1", "pods")?;
    api.registry.edit(&call, |entry| bound(&call, entry, binding, node)).await?;
    Ok(success(201))
}

/// A pod as it is stored.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stored<'a> {
    #[serde(borrow)]
    kind: &'a RawValue,
    #[serde(borrow)]
    api_version: &'a RawValue,
    #[serde(borrow)]
    metadata: &'a RawValue,
    #[serde(borrow)]
    spec: Fields<'a>,
    #[serde(borrow, default)]
    status: Fields<'a>,
}

type Fields<'a> = BTreeMap<&'a str, &'a RawValue>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<IgnoredAny>,
}

/// The pod's text with its node.
fn bound(call: &Call, entry: &Entry, binding: &Value, node: &str) -> Result<Bytes> {
    let pod = &call.name;
    let mut stored: Stored<'_> = serde_json::from_slice(&entry.value).map_err(ApiError::internal)?;
    let metadata: Metadata = read(stored.metadata)?;
    let uid = binding.uid();
    let refusal = if !uid.is_empty() && uid != metadata.uid {
        Some(format!("the UID in the binding ({uid}) is not the pod's ({})", metadata.uid))
    } else if metadata.deletion_timestamp.is_some() {
        Some(format!("pod {pod} is being deleted, cannot be assigned to a host"))
    } else if let Some(bound) = field::<String>(&stored.spec, "nodeName")?.filter(|node| !node.is_empty()) {
        Some(format!("pod {pod} is already assigned to node \"{bound}\""))
    } else {
        let gates = field::<Vec<IgnoredAny>>(&stored.spec, "schedulingGates")?;
        let gated = gates.is_some_and(|gates| !gates.is_empty());
        gated.then(|| format!("pod {pod} has non-empty .spec.schedulingGates"))
    };
    if let Some(why) = refusal {
        return Err(ApiError::conflict(call.served.resource(), pod, why));
    }
    let node = to_raw_value(node).map_err(ApiError::internal)?;
    stored.spec.insert("nodeName", &node);
    let conditions = field::<Vec<Value>>(&stored.status, "conditions")?.unwrap_or_default();
    let conditions =
        to_raw_value(&scheduled(conditions, &timestamp(call.now))).map_err(ApiError::internal)?;
    stored.status.insert("conditions", &conditions);
    let annotated = annotated(call, stored.metadata, &binding["metadata"]["annotations"])?;
    if let Some(metadata) = &annotated {
        stored.metadata = metadata;
    }
    serde_json::to_vec(&stored).map(Bytes::from).map_err(ApiError::internal)
}

fn field<'a, T: Deserialize<'a>>(fields: &Fields<'a>, name: &str) -> Result<Option<T>> {
    fields.get(name).map_or(Ok(None), |text| read(text))
}

fn read<'a, T: Deserialize<'a>>(text: &'a RawValue) -> Result<T> {
    serde_json::from_str(text.get()).map_err(ApiError::internal)
}

fn scheduled(mut conditions: Vec<Value>, now: &str) -> Vec<Value> {
    let condition =
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    match conditions.iter_mut().find(|c| c["type"] == "PodScheduled") {
        Some(existing) => *existing = condition,
        None => conditions.push(condition),
    }
    conditions
}

/// The pod's metadata with the annotations of the binding, if it has any.
fn annotated(call: &Call, metadata: &RawValue, annotations: &Value) -> Result<Option<Box<RawValue>>> {
    let Some(annotations) = annotations.as_object().filter(|annotations| !annotations.is_empty()) else {
        return Ok(None);
    };
    let mut object = json!({"metadata": read::<Value>(metadata)?});
    let own = object_at(&mut object["metadata"], "annotations");
    own.extend(annotations.iter().map(|(key, value)| (key.clone(), value.clone())));
    let mut errors = FieldErrors::default();
    minik8s_api::validate_metadata(call.served.resource(), &object, &mut errors);
    if !errors.is_empty() {
        return Err(ApiError::invalid(&call.served.group, &call.served.kind, &call.name, errors));
    }
    to_raw_value(&object["metadata"]).map(Some).map_err(ApiError::internal)
}
