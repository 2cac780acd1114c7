//! Role `service`: every port of every Service, by its name, for probes from outside the pods.

use serde_json::Value;

use super::objects::{name_of, namespace_of};
use super::target::{Labels, Target, list, text};

pub fn targets(service: &Value) -> impl Iterator<Item = Target<'_>> {
    let common = labels(service);
    let host = format!("{}.{}.svc", name_of(service), namespace_of(service));
    list(&service["spec"]["ports"]).map(move |port| {
        let mut labels = common.clone();
        labels.add("service_port_name", text(&port["name"]));
        labels.add("service_port_number", port["port"].to_string());
        labels.add("service_port_protocol", port["protocol"].as_str().unwrap_or("TCP"));
        Target { address: [format!("{host}:{}", port["port"])], labels }
    })
}

fn labels(service: &Value) -> Labels<'_> {
    let spec = &service["spec"];
    let mut labels = metadata(service);
    labels.add_namespace(service);
    let kind = spec["type"].as_str().unwrap_or("ClusterIP");
    labels.add("service_type", kind);
    match kind {
        "ExternalName" => labels.add("service_external_name", text(&spec["externalName"])),
        _ => labels.add("service_cluster_ip", text(&spec["clusterIP"])),
    }
    if kind == "LoadBalancer" {
        labels.add_some("service_loadbalancer_ip", &spec["loadBalancerIP"]);
    }
    labels
}

/// What targets of other roles are told of their Service.
pub fn metadata(service: &Value) -> Labels<'_> {
    let mut labels = Labels::default();
    labels.add_metadata("service", service);
    labels
}
