//! What NetworkPolicies ask about a pod, and no more: the only form in which a node may read the pods of other nodes.
//!
//! It is made of the stored pod whenever somebody reads it; nobody writes it. Specs stay closed: environment variables,
//! commands and annotations are often secret.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::own::{api_version, kind};
use crate::served_type;

/// PodAddress is what NetworkPolicies ask about a pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.PodAddress")]
#[serde(rename_all = "camelCase")]
pub struct PodAddress {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<PodAddress>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<PodAddress>")]
    pub kind: String,
    /// Standard object's metadata: names, labels and times alone.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// spec is where the pod is.
    #[serde(default)]
    pub spec: PodAddressSpec,
}

/// PodAddressSpec is where a pod is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.PodAddressSpec")]
#[serde(rename_all = "camelCase")]
pub struct PodAddressSpec {
    /// nodeName is its node.
    #[serde(default)]
    pub node_name: String,
    /// hostNetwork says that it has the node's addresses.
    #[serde(default)]
    pub host_network: bool,
    /// ended says that its containers have ended for good.
    #[serde(default)]
    pub ended: bool,
    /// addresses of the pod.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// ports that have names.
    #[serde(default)]
    pub ports: Vec<PodAddressPort>,
}

/// PodAddressPort is a port with a name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.internal.v1.PodAddressPort")]
#[serde(rename_all = "camelCase")]
pub struct PodAddressPort {
    /// name of the port.
    #[serde(default)]
    pub name: String,
    /// protocol is TCP, UDP or SCTP.
    #[serde(default)]
    pub protocol: String,
    /// port is its number.
    #[serde(default)]
    pub port: u16,
}

// The plural is that of the objects that are read.
served_type!(PodAddress: "internal.minik8s.io" "v1" "PodAddress" "pods" NamespaceResourceScope);

/// What is kept of a pod's metadata.
const METADATA: [&str; 6] = ["name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp"];

impl PodAddress {
    /// Makes the JSON of a pod into that of its PodAddress.
    pub fn of(pod: &Value) -> Value {
        let metadata = pod["metadata"].as_object().into_iter().flatten();
        let metadata: Map<String, Value> = metadata
            .filter(|(name, _)| METADATA.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let addresses: Vec<&Value> = match status["podIPs"].as_array() {
            Some(all) if !all.is_empty() => all.iter().map(|one| &one["ip"]).collect(),
            _ => status.get("podIP").into_iter().collect(),
        };
        let addresses: Vec<&str> =
            addresses.into_iter().filter_map(Value::as_str).filter(|text| !text.is_empty()).collect();
        json!({
            "apiVersion": api_version::<PodAddress>(),
            "kind": kind::<PodAddress>(),
            "metadata": metadata,
            "spec": {
                "nodeName": spec["nodeName"].as_str().unwrap_or_default(),
                "hostNetwork": spec["hostNetwork"].as_bool().unwrap_or_default(),
                "ended": matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")),
                "addresses": addresses,
                "ports": ports(spec),
            },
        })
    }
}

/// Of containers, and of init containers that go on running.
fn ports(spec: &Value) -> Vec<Value> {
    let sidecars = spec["initContainers"].as_array().into_iter().flatten();
    let sidecars = sidecars.filter(|container| container["restartPolicy"] == "Always");
    let containers = spec["containers"].as_array().into_iter().flatten().chain(sidecars);
    let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let port = |port: &Value| {
        let name = port["name"].as_str().filter(|name| !name.is_empty())?;
        let number = u16::try_from(port["containerPort"].as_u64()?).ok()?;
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        Some(json!({"name": name, "protocol": protocol, "port": number}))
    };
    ports.filter_map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_address_holds_nothing_but_what_policies_ask_about() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "b", "labels": {"app": "web"}, "annotations": {"secret": "1"},
                "managedFields": [{"manager": "secret"}], "ownerReferences": []},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "env": [{"name": "PASSWORD", "value": "secret"}],
                "command": ["secret"], "ports": [{"name": "http", "containerPort": 80}, {"containerPort": 81},
                {"name": "sig", "containerPort": 82, "protocol": "SCTP"}]}],
                "initContainers": [{"ports": [{"name": "init", "containerPort": 1}]},
                {"restartPolicy": "Always", "ports": [{"name": "side", "containerPort": 2}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
        });
        let seen = PodAddress::of(&pod);
        assert!(!seen.to_string().contains("secret"), "{seen}");
        let address: PodAddress = serde_json::from_value(seen).unwrap();
        assert_eq!(address.spec.addresses, ["10.0.0.1", "fd00::1"]);
        let ports: Vec<(&str, &str, u16)> =
            address.spec.ports.iter().map(|p| (&*p.name, &*p.protocol, p.port)).collect();
        assert_eq!(ports, [("http", "TCP", 80), ("sig", "SCTP", 82), ("side", "TCP", 2)]);
        assert_eq!((address.spec.node_name.as_str(), address.spec.host_network), ("n", false));
    }

    #[test]
    fn odd_pods_do_no_harm() {
        for odd in
            [json!(null), json!([]), json!({"spec": 1, "status": []}), json!({"spec": {"containers": [1]}})]
        {
            assert_eq!(PodAddress::of(&odd)["spec"]["addresses"], json!([]), "{odd}");
        }
        let ended = PodAddress::of(&json!({"status": {"phase": "Failed", "podIP": "10.0.0.1"}}));
        assert_eq!(
            (&ended["spec"]["ended"], &ended["spec"]["addresses"][0]),
            (&json!(true), &json!("10.0.0.1"))
        );
    }
}
