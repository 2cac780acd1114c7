//! Role `endpointslice`: as `endpoints`, from the objects that replaced those.

use std::collections::HashMap;
use std::iter::once;

use serde_json::Value;

use super::endpoints::{Backed, pod_of, pod_reference};
use super::lists::Reference;
use super::objects::{Kind, namespace_of};
use super::service;
use super::target::{Labels, Target, joined, list, sanitized, text};

/// Names the Service of a slice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

type ByName<'a> = HashMap<(&'a str, &'a str), &'a Value>;

pub fn targets<'a>(slice: &'a Value, services: &ByName<'a>, pods: &ByName<'a>) -> Vec<Target<'a>> {
    let namespace = namespace_of(slice);
    let mut common = Labels::default();
    common.add_namespace(slice);
    common.add_metadata("endpointslice", slice);
    common.add_some("endpointslice_address_type", &slice["addressType"]);
    let service_name = text(&slice["metadata"]["labels"][SERVICE_NAME]);
    if let Some(found) = services.get(&(namespace, service_name)) {
        common.extend(&service::metadata(found));
    }
    let mut backed = Backed::default();
    let mut targets = Vec::new();
    for endpoint in list(&slice["endpoints"]) {
        let own = endpoint_labels(endpoint);
        for port in list(&slice["ports"]) {
            for address in list(&endpoint["addresses"]) {
                let mut labels = common.clone();
                labels.extend(&own);
                labels.add_some("endpointslice_port_name", &port["name"]);
                labels.add("endpointslice_port_protocol", port["protocol"].as_str().unwrap_or("TCP"));
                labels.add_some("endpointslice_port_app_protocol", &port["appProtocol"]);
                labels.add_some("endpointslice_port", &port["port"]);
                if let Some(pod) = pod_of(&endpoint["targetRef"], namespace, pods) {
                    labels.extend(&backed.take(pod, &port["port"]));
                }
                targets.push(Target { address: [joined(text(address), &port["port"])], labels });
            }
        }
    }
    targets.extend(backed.rest(&common));
    targets
}

/// What [`targets`] looks up.
pub fn references(slice: &Value) -> Vec<Reference> {
    let namespace = namespace_of(slice);
    let service = text(&slice["metadata"]["labels"][SERVICE_NAME]);
    let pods = list(&slice["endpoints"])
        .filter_map(|endpoint| pod_reference(&endpoint["targetRef"], namespace))
        .map(|(namespace, name)| Reference::new(Kind::Pod, namespace, name));
    once(Reference::new(Kind::Service, namespace, service)).chain(pods).collect()
}

fn endpoint_labels(endpoint: &Value) -> Labels<'_> {
    let mut labels = Labels::default();
    for condition in ["ready", "serving", "terminating"] {
        let name = format!("endpointslice_endpoint_conditions_{condition}");
        labels.add_some(&name, &endpoint["conditions"][condition]);
    }
    labels.add_some("endpointslice_endpoint_hostname", &endpoint["hostname"]);
    labels.add_some("endpointslice_endpoint_node_name", &endpoint["nodeName"]);
    labels.add_some("endpointslice_endpoint_zone", &endpoint["zone"]);
    labels.add_some("endpointslice_address_target_kind", &endpoint["targetRef"]["kind"]);
    labels.add_some("endpointslice_address_target_name", &endpoint["targetRef"]["name"]);
    for (name, value) in endpoint["deprecatedTopology"].as_object().into_iter().flatten() {
        let name = sanitized(name);
        labels.add(&format!("endpointslice_endpoint_topology_{name}"), text(value));
        labels.add(&format!("endpointslice_endpoint_topology_present_{name}"), "true");
    }
    labels
}
