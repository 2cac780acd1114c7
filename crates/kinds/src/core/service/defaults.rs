//! What a Service gets if its author says nothing. Which address families it has depends on the cluster: the API server
//! fills them in when it gives addresses.

use serde_json::Value;

use super::externally_accessible;
use crate::fill;

const AFFINITY_SECONDS: i64 = 3 * 60 * 60;

pub(super) fn fill(object: &mut Value) {
    let Some(spec) = fill::object(object, "spec") else { return };
    fill::field(spec, "type", "ClusterIP");
    fill_session_affinity(spec);
    for port in fill::items(spec, "ports") {
        fill_port(port);
    }
    if externally_accessible(spec) {
        fill::field(spec, "externalTrafficPolicy", "Cluster");
    }
    if spec["type"] != "ExternalName" {
        fill::field(spec, "internalTrafficPolicy", "Cluster");
    }
    if spec["type"] == "LoadBalancer" {
        fill::field(spec, "allocateLoadBalancerNodePorts", true);
        fill_ip_modes(object);
    }
}

fn fill_session_affinity(spec: &mut Value) {
    fill::field(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None" {
        fill::remove(spec, "sessionAffinityConfig");
    } else if spec["sessionAffinity"] == "ClientIP"
        && let Some(config) = fill::object(spec, "sessionAffinityConfig")
        && let Some(client) = fill::object(config, "clientIP")
    {
        fill::field(client, "timeoutSeconds", AFFINITY_SECONDS);
    }
}

fn fill_port(port: &mut Value) {
    fill::field(port, "protocol", "TCP");
    if port["targetPort"] == 0 {
        fill::remove(port, "targetPort");
    }
    let number = port["port"].clone();
    fill::field(port, "targetPort", number);
}

fn fill_ip_modes(object: &mut Value) {
    let Some(balancer) = object.pointer_mut("/status/loadBalancer") else { return };
    for ingress in fill::items(balancer, "ingress") {
        if ingress["ip"].as_str().is_some_and(|ip| !ip.is_empty()) {
            fill::field(ingress, "ipMode", "VIP");
        }
    }
}
