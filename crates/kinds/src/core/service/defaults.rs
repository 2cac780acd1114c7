//! What a Service gets if its author says nothing.

use std::net::IpAddr;

use serde_json::{Value, json};

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
        fill_families(spec);
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

/// One address family, that of the address asked for, else IPv4. A headless Service without a selector
/// lists backends that someone else writes: it may carry both families.
fn fill_families(spec: &mut Value) {
    let family = match spec["clusterIP"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok()) {
        Some(IpAddr::V6(_)) => "IPv6",
        _ => "IPv4",
    };
    let unselected = spec["selector"].as_object().is_none_or(|selector| selector.is_empty());
    if super::is_headless(spec) && unselected {
        fill::field(spec, "ipFamilyPolicy", "RequireDualStack");
        if spec["ipFamilyPolicy"] != "SingleStack" {
            fill::field(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
        }
    }
    fill::field(spec, "ipFamilies", json!([family]));
    fill::field(spec, "ipFamilyPolicy", "SingleStack");
}

fn fill_ip_modes(object: &mut Value) {
    let Some(balancer) = object.pointer_mut("/status/loadBalancer") else { return };
    for ingress in fill::items(balancer, "ingress") {
        if ingress["ip"].as_str().is_some_and(|ip| !ip.is_empty()) {
            fill::field(ingress, "ipMode", "VIP");
        }
    }
}
