//! What a Service must look like.

use std::collections::HashSet;

use serde_json::json;

use super::{addresses, externally_accessible, is_headless, needs_health_check};
use crate::At;
use crate::metadata::validate_labels;
use crate::{FieldErrors, format};
use serde_json::Value;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const NODE_PORTS: (i64, i64) = (30_000, 32_767);
const MAX_AFFINITY_SECONDS: i64 = 86_400;
const KUBELET_PORT: i64 = 10_250;

pub(super) fn service(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    if !spec.field("ports").is_set()
        && !is_headless(spec.value)
        && spec.field("type").text() != "ExternalName"
    {
        spec.field("ports").required(errors, "");
    }
    by_type(&spec, errors);
    ports(&spec, errors);
    validate_labels(&spec.value["selector"], &spec.path.field("selector"), errors);
    session_affinity(&spec, errors);
    addresses::validate(&spec, errors);
    for ip in spec.field("externalIPs").items() {
        ip.problems(errors, format::endpoint_ip(ip.text()));
    }
    spec.field("type").need_one_of(errors, TYPES);
    balancer(&spec, errors);
    traffic(&spec, errors);
}

fn by_type(spec: &At<'_>, errors: &mut FieldErrors) {
    let first_ip = || spec.path.field("clusterIPs").index(0);
    match spec.field("type").text() {
        "LoadBalancer" => {
            for port in spec.field("ports").items().map(|p| p.field("port")) {
                if port.int() == Some(KUBELET_PORT) {
                    port.invalid(errors, "may not expose port 10250 externally since it is used by kubelet");
                }
            }
            if is_headless(spec.value) {
                errors.invalid(first_ip(), "None", "may not be set to 'None' for LoadBalancer services");
            }
        }
        "NodePort" if is_headless(spec.value) => {
            errors.invalid(first_ip(), "None", "may not be set to 'None' for NodePort services");
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"].map(|name| spec.field(name)) {
                if field.is_set() {
                    field.forbidden(errors, "may not be set for ExternalName services");
                }
            }
            let name = spec.field("externalName");
            match name.text() {
                "" => name.required(errors, ""),
                text => name.problems(errors, format::subdomain(text.strip_suffix('.').unwrap_or(text))),
            }
        }
        _ => {}
    }
}

fn ports(spec: &At<'_>, errors: &mut FieldErrors) {
    let list = spec.field("ports");
    let named = list.len() > 1;
    let (mut names, mut numbers, mut node_ports) = (HashSet::new(), HashSet::new(), HashSet::new());
    for port in list.items() {
        port_fields(&port, named, errors);
        let name = port.field("name");
        if name.is_set() && !names.insert(name.text()) {
            name.duplicate(errors);
        }
        let protocol = port.field("protocol").text();
        let number = port.field("port").int().unwrap_or_default();
        if !numbers.insert((protocol, number)) {
            errors.duplicate(port.path.clone(), json!({ "port": number, "protocol": protocol }));
        }
        node_port(spec, &port.field("nodePort"), protocol, &mut node_ports, errors);
    }
}

fn port_fields(port: &At<'_>, named: bool, errors: &mut FieldErrors) {
    let name = port.field("name");
    match (name.is_set(), named) {
        (true, _) => name.problems(errors, format::label(name.text())),
        (false, true) => name.required(errors, ""),
        (false, false) => {}
    }
    let number = port.field("port");
    number.problems(errors, format::port_number(number.int().unwrap_or_default()));
    port.field("protocol").need_one_of(errors, PROTOCOLS);
    let target = port.field("targetPort");
    match target.value {
        Value::String(text) => target.problems(errors, format::port_name(text)),
        Value::Number(_) => target.problems(errors, format::port_number(target.int().unwrap_or_default())),
        _ => {}
    }
    port.field("appProtocol").has_form(errors, format::qualified_name);
}

fn node_port<'a>(
    spec: &At<'a>,
    port: &At<'a>,
    protocol: &'a str,
    seen: &mut HashSet<(&'a str, i64)>,
    errors: &mut FieldErrors,
) {
    let Some(number) = port.int().filter(|&number| number != 0) else { return };
    if spec.field("type").text() == "ClusterIP" {
        port.forbidden(errors, "may not be used when `type` is 'ClusterIP'");
    } else if !(NODE_PORTS.0..=NODE_PORTS.1).contains(&number) {
        port.invalid(
            errors,
            format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                NODE_PORTS.0, NODE_PORTS.1
            ),
        );
    }
    if !seen.insert((protocol, number)) {
        port.duplicate(errors);
    }
}

fn session_affinity(spec: &At<'_>, errors: &mut FieldErrors) {
    let affinity = spec.field("sessionAffinity");
    let config = spec.field("sessionAffinityConfig");
    affinity.need_one_of(errors, &["ClientIP", "None"]);
    match affinity.text() {
        "ClientIP" => {
            let timeout = config.field("clientIP").field("timeoutSeconds");
            match timeout.int() {
                None => config.required(errors, "when session affinity type is ClientIP"),
                Some(seconds) if !(1..=MAX_AFFINITY_SECONDS).contains(&seconds) => timeout
                    .invalid(errors, format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}")),
                Some(_) => {}
            }
        }
        "None" if config.exists() => {
            config.forbidden(errors, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn balancer(spec: &At<'_>, errors: &mut FieldErrors) {
    let only = "may only be used when `type` is 'LoadBalancer'";
    let is_balancer = spec.field("type").text() == "LoadBalancer";
    let ranges = spec.field("loadBalancerSourceRanges");
    if ranges.is_set() && !is_balancer {
        ranges.forbidden(errors, only);
    }
    for range in ranges.items() {
        range.problems(errors, format::cidr(range.text().trim()));
    }
    let class = spec.field("loadBalancerClass");
    if class.exists() && !is_balancer {
        class.forbidden(errors, only);
    } else {
        class.has_form(errors, format::qualified_name);
    }
    let allocate = spec.field("allocateLoadBalancerNodePorts");
    match (is_balancer, allocate.exists()) {
        (true, false) => allocate.required(errors, "required when `type` is 'LoadBalancer'"),
        (false, true) => allocate.forbidden(errors, only),
        _ => {}
    }
}

fn traffic(spec: &At<'_>, errors: &mut FieldErrors) {
    let policies = &["Cluster", "Local"];
    let external = spec.field("externalTrafficPolicy");
    if externally_accessible(spec.value) {
        external.need_one_of(errors, policies);
    } else if external.is_set() {
        external.invalid(errors, "may only be set for externally-accessible services");
    }
    let health = spec.field("healthCheckNodePort");
    health.not_negative(errors);
    if health.int().is_some_and(|port| port > 0) && !needs_health_check(spec.value) {
        health.invalid(
            errors,
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        );
    }
    let internal = spec.field("internalTrafficPolicy");
    if spec.field("type").text() != "ExternalName" {
        internal.need_one_of(errors, policies);
    }
    spec.field("trafficDistribution").one_of(errors, &["PreferClose", "PreferSameNode", "PreferSameZone"]);
}
