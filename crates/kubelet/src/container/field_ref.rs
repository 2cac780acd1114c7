//! The downward API: fields of the pod and resources of its containers. Pure.

use k8s_openapi::api::core::v1 as core;
use minik8s_meta::{Quantity, QuantityFormat};
use thiserror::Error;

use crate::pod::DesiredPod;

/// What is known of the pod once its sandbox runs.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    pub node_name: String,
    pub host_ip: String,
    pub pod_ips: Vec<String>,
    /// What a container without a limit may use, in thousandths of a core and in bytes.
    pub allocatable_cpu: i64,
    pub allocatable_memory: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FieldError {
    #[error("field path {0:?} is not supported")]
    Path(String),
    #[error("container {0:?} not found")]
    Container(String),
    #[error("resource {0:?} is not supported")]
    Resource(String),
    #[error("divisor {0:?} is not a quantity")]
    Divisor(String),
}

pub fn field(desired_pod: &DesiredPod, placement: &Placement, path: &str) -> Result<String, FieldError> {
    let meta = &desired_pod.pod.metadata;
    let spec = desired_pod.spec();
    if let Some((list, key)) = path.strip_suffix("']").and_then(|p| p.split_once("['")) {
        let map = match list {
            "metadata.labels" => &meta.labels,
            "metadata.annotations" => &meta.annotations,
            _ => return Err(FieldError::Path(path.to_owned())),
        };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.name" => desired_pod.name.clone(),
        "metadata.namespace" => desired_pod.namespace.clone(),
        "metadata.uid" => desired_pod.uid.clone(),
        "metadata.labels" => lines(&meta.labels),
        "metadata.annotations" => lines(&meta.annotations),
        "spec.nodeName" => placement.node_name.clone(),
        "spec.serviceAccountName" => spec.and_then(|s| s.service_account_name.clone()).unwrap_or_default(),
        "status.hostIP" | "status.hostIPs" => placement.host_ip.clone(),
        "status.podIP" => placement.pod_ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => placement.pod_ips.join(","),
        _ => return Err(FieldError::Path(path.to_owned())),
    })
}

/// Labels or annotations as a file shows them: `key="value"` lines in order.
fn lines(map: &Option<std::collections::BTreeMap<String, String>>) -> String {
    let quoted = |value: &String| serde_json::Value::from(value.as_str()).to_string();
    let lines: Vec<_> = map.iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    lines.join("\n")
}

/// `container` is the one that asks; the selector may name another.
pub fn resource(
    desired_pod: &DesiredPod,
    placement: &Placement,
    container: &str,
    selector: &core::ResourceFieldSelector,
) -> Result<String, FieldError> {
    let name = selector.container_name.as_deref().unwrap_or(container);
    let spec = desired_pod.container(name).ok_or_else(|| FieldError::Container(name.to_owned()))?;
    let resources = spec.spec.resources.clone().unwrap_or_default();
    let unsupported = || FieldError::Resource(selector.resource.clone());
    let (list, kind) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let amount = |list: &Option<std::collections::BTreeMap<String, _>>| {
        list.as_ref()
            .and_then(|l| l.get(kind))
            .map(|q: &k8s_openapi::apimachinery::pkg::api::resource::Quantity| q.0.clone())
    };
    let written = match list {
        "limits" => amount(&resources.limits),
        "requests" => amount(&resources.requests).or_else(|| amount(&resources.limits)),
        _ => return Err(unsupported()),
    };
    let total = match (written, list) {
        (Some(text), _) => Quantity::parse(&text).map_err(|_| unsupported())?,
        (None, "limits") if kind == "cpu" => Quantity::from_milli(placement.allocatable_cpu),
        (None, "limits") if kind == "memory" => {
            Quantity::new(placement.allocatable_memory, QuantityFormat::BinarySi)
        }
        (None, _) => Quantity::ZERO,
    };
    let divisor = selector.divisor.as_ref().map_or("1", |q| q.0.as_str());
    let unit = Quantity::parse(divisor).map_err(|_| FieldError::Divisor(divisor.to_owned()))?;
    let unit = if unit > Quantity::ZERO { unit } else { Quantity::from_milli(1000) };
    Ok(total.in_units_of(unit).to_string())
}
