//! What a changed Service keeps of the old one, and what of it may not change.
//!
//! A user who writes a Service again without the addresses and ports that were allocated for it means
//! "leave them"; a user who changes the type means "drop what only the old type had".

use serde_json::{Value, json};

use super::{addresses, externally_accessible, needs_cluster_ip, needs_health_check};
use crate::At;
use crate::FieldErrors;
use crate::fill;

pub(super) fn carry_over(object: &mut Value, old: &Value) {
    let Some(spec) = fill::object(object, "spec") else { return };
    let old = &old["spec"];
    keep_cluster_ips(spec, old);
    keep_node_ports(spec, old);
    if needs_health_check(spec) && needs_health_check(old) && is_zero(&spec["healthCheckNodePort"]) {
        fill::restore(spec, old, "healthCheckNodePort");
    }
    drop_of_other_types(spec, old);
    addresses::fill_cluster_ips(object);
}

pub(super) fn validate(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let (new, old) = (At::root(object).field("spec"), At::root(old).field("spec"));
    addresses::validate_update(&new, &old, errors);
    let (class, old_class) = (new.field("loadBalancerClass"), old.field("loadBalancerClass"));
    let both_balancers = new.value["type"] == "LoadBalancer" && old.value["type"] == "LoadBalancer";
    if both_balancers && class.value != old_class.value {
        class.invalid(errors, "may not change once set");
    }
}

fn keep_cluster_ips(spec: &mut Value, old: &Value) {
    if !needs_cluster_ip(spec) || !needs_cluster_ip(old) {
        return;
    }
    if is_unset(&spec["clusterIP"]) {
        fill::restore(spec, old, "clusterIP");
    }
    let is_same = spec["clusterIP"] == old["clusterIP"];
    if is_same && is_unset(&spec["clusterIPs"]) {
        fill::restore(spec, old, "clusterIPs");
    } else if !is_same && spec["clusterIPs"] == old["clusterIPs"] {
        // Only the single field was changed: the list follows, and validation judges the change.
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
}

fn keep_node_ports(spec: &mut Value, old: &Value) {
    if !has_node_ports(spec) || !has_node_ports(old) {
        return;
    }
    let asked: Vec<Value> = fill::items(spec, "ports").map(|port| port["nodePort"].clone()).collect();
    for port in fill::items(spec, "ports").filter(|port| is_zero(&port["nodePort"])) {
        let before = old["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|before| before["port"] == port["port"] && before["protocol"] == port["protocol"]);
        if let Some(before) = before
            && !is_zero(&before["nodePort"])
            && !asked.contains(&before["nodePort"])
        {
            port["nodePort"] = before["nodePort"].clone();
        }
    }
}

/// Fields that the new type cannot have, unless the user sets them anew (then validation complains).
fn drop_of_other_types(spec: &mut Value, old: &Value) {
    let had = |test: fn(&Value) -> bool, spec: &Value| test(old) && !test(spec);
    let is_balancer: fn(&Value) -> bool = |spec| spec["type"] == "LoadBalancer";
    let groups: [(bool, &[&str]); 4] = [
        (had(needs_cluster_ip, spec), &["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]),
        (had(needs_health_check, spec), &["healthCheckNodePort"]),
        (had(is_balancer, spec), &["allocateLoadBalancerNodePorts", "loadBalancerClass"]),
        (had(externally_accessible, spec), &["externalTrafficPolicy"]),
    ];
    if had(needs_cluster_ip, spec) && has_same_cluster_ips(spec, old) {
        fill::remove(spec, "clusterIP");
        fill::remove(spec, "clusterIPs");
    }
    for (_, fields) in groups.iter().filter(|(lost, _)| *lost) {
        for field in *fields {
            if spec[field] == old[field] {
                fill::remove(spec, field);
            }
        }
    }
    if has_node_ports(old) && !has_node_ports(spec) {
        let before: Vec<Value> =
            old["ports"].as_array().into_iter().flatten().map(|port| port["nodePort"].clone()).collect();
        for port in fill::items(spec, "ports").filter(|port| before.contains(&port["nodePort"])) {
            fill::remove(port, "nodePort");
        }
    }
}

fn has_node_ports(spec: &Value) -> bool {
    match spec["type"].as_str().unwrap_or_default() {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

/// Also for who knows the single field alone, or has cleared it.
fn has_same_cluster_ips(spec: &Value, old: &Value) -> bool {
    let (single, list) = (&spec["clusterIP"], &spec["clusterIPs"]);
    *list == old["clusterIPs"] || is_unset(list) && (is_unset(single) || *single == old["clusterIP"])
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn is_zero(number: &Value) -> bool {
    number.as_i64().unwrap_or_default() == 0
}
