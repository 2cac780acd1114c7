//! Role `endpoints`: every address behind every Service, with what is known of the Service and the pod; and the ports of
//! these pods that no Service names.

use std::collections::HashMap;
use std::iter::once;

use serde_json::Value;

use super::lists::Reference;
use super::objects::{Kind, namespace_of};
use super::pod::{add_port, container_labels, containers, labels as pod_labels};
use super::service;
use super::target::{Labels, Target, joined, list, text};

type ByName<'a> = HashMap<(&'a str, &'a str), &'a Value>;

pub fn targets<'a>(endpoints: &'a Value, services: &ByName<'a>, pods: &ByName<'a>) -> Vec<Target<'a>> {
    let namespace = namespace_of(endpoints);
    let mut common = Labels::default();
    common.add_namespace(endpoints);
    common.add_metadata("endpoints", endpoints);
    let name = text(&endpoints["metadata"]["name"]);
    if let Some(found) = services.get(&(namespace, name)) {
        common.extend(&service::metadata(found));
    }
    let mut backed = Backed::default();
    let mut targets = Vec::new();
    for subset in list(&endpoints["subsets"]) {
        for (field, is_ready) in [("addresses", "true"), ("notReadyAddresses", "false")] {
            for address in list(&subset[field]) {
                for port in list(&subset["ports"]) {
                    let mut labels = common.clone();
                    labels.add("endpoint_port_name", text(&port["name"]));
                    labels.add("endpoint_port_protocol", port["protocol"].as_str().unwrap_or("TCP"));
                    labels.add("endpoint_ready", is_ready);
                    labels.add_some("endpoint_hostname", &address["hostname"]);
                    labels.add_some("endpoint_node_name", &address["nodeName"]);
                    let reference = &address["targetRef"];
                    labels.add_some("endpoint_address_target_kind", &reference["kind"]);
                    labels.add_some("endpoint_address_target_name", &reference["name"]);
                    if let Some(pod) = pod_of(reference, namespace, pods) {
                        labels.extend(&backed.take(pod, &port["port"]));
                    }
                    targets.push(Target { address: [joined(text(&address["ip"]), &port["port"])], labels });
                }
            }
        }
    }
    targets.extend(backed.rest(&common));
    targets
}

/// What [`targets`] looks up.
pub fn references(endpoints: &Value) -> Vec<Reference> {
    let namespace = namespace_of(endpoints);
    let service = Reference::new(Kind::Service, namespace, text(&endpoints["metadata"]["name"]));
    let lists = list(&endpoints["subsets"])
        .flat_map(|subset| ["addresses", "notReadyAddresses"].map(|field| &subset[field]));
    let pods = lists.flat_map(list).filter_map(|address| pod_reference(&address["targetRef"], namespace));
    let pods = pods.map(|(namespace, name)| Reference::new(Kind::Pod, namespace, name));
    once(service).chain(pods).collect()
}

/// The pod that an endpoint names.
pub fn pod_of<'a>(reference: &Value, namespace: &str, pods: &ByName<'a>) -> Option<&'a Value> {
    pods.get(&pod_reference(reference, namespace)?).copied()
}

/// Namespace and name of the pod that an endpoint in `namespace` names.
pub fn pod_reference<'a>(reference: &'a Value, namespace: &'a str) -> Option<(&'a str, &'a str)> {
    let namespace = reference["namespace"].as_str().unwrap_or(namespace);
    (reference["kind"] == "Pod").then(|| (namespace, text(&reference["name"])))
}

/// The pods behind a Service, and which of their ports it has named.
#[derive(Default)]
pub struct Backed<'a>(Vec<(&'a Value, Vec<&'a Value>)>);

impl<'a> Backed<'a> {
    /// Labels of the pod, and of the container that has this port.
    pub fn take(&mut self, pod: &'a Value, port: &Value) -> Labels<'a> {
        let mut labels = pod_labels(pod);
        let known = match self.0.iter().position(|(known, _)| std::ptr::eq(*known, pod)) {
            Some(at) => at,
            None => {
                self.0.push((pod, Vec::new()));
                self.0.len() - 1
            }
        };
        for (container, is_init) in containers(pod) {
            if let Some(own) = list(&container["ports"]).find(|own| own["containerPort"] == *port) {
                labels.extend(&container_labels(pod, container, is_init));
                add_port(&mut labels, own);
                self.0[known].1.push(own);
                break;
            }
        }
        labels
    }

    /// Ports of these pods that the Service does not name: a page of metrics is seldom behind it.
    pub fn rest(self, common: &Labels<'a>) -> Vec<Target<'a>> {
        let mut targets = Vec::new();
        for (pod, named) in self.0 {
            for (container, is_init) in containers(pod) {
                let ports = list(&container["ports"]);
                for port in ports.filter(|port| !named.iter().any(|named| std::ptr::eq(*named, *port))) {
                    let mut labels = common.clone();
                    labels.extend(&pod_labels(pod));
                    labels.extend(&container_labels(pod, container, is_init));
                    add_port(&mut labels, port);
                    let address = joined(text(&pod["status"]["podIP"]), &port["containerPort"]);
                    targets.push(Target { address: [address], labels });
                }
            }
        }
        targets
    }
}
