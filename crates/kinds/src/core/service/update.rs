//! What a changed Service keeps of the old one, and what of it may not change.
//!
//! A user who writes a Service again without the addresses and ports that were allocated for it means
//! "leave them"; a user who changes the type means "drop what only the old type had".

use serde_json::{Value, json};

use super::{externally_accessible, needs_health_check};
use crate::At;
use crate::FieldErrors;
use crate::fill;

/// `clusterIP` and `clusterIPs[0]` are the same thing: a writer who knows only one gets both.
pub(super) fn settle_cluster_ips(object: &mut Value) {
    let Some(spec) = fill::object(object, "spec") else { return };
    let first = spec["clusterIPs"][0].as_str().unwrap_or_default().to_owned();
    let single = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    if first.is_empty() && !single.is_empty() {
        spec["clusterIPs"] = json!([single]);
    } else if single.is_empty() && !first.is_empty() {
        spec["clusterIP"] = json!(first);
    }
}

pub(super) fn carry_over(object: &mut Value, old: &Value) {
    let Some(spec) = fill::object(object, "spec") else { return };
    let old = &old["spec"];
    keep_cluster_ips(spec, old);
    keep_node_ports(spec, old);
    if needs_health_check(spec) && needs_health_check(old) && is_zero(&spec["healthCheckNodePort"]) {
        fill::restore(spec, old, "healthCheckNodePort");
    }
    drop_of_other_types(spec, old);
    settle_cluster_ips(object);
}

pub(super) fn validate(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let (new, old) = (At::root(object).field("spec"), At::root(old).field("spec"));
    if has_cluster_ip(new.value) && has_cluster_ip(old.value) {
        for field in ["clusterIPs", "ipFamilies"] {
            let (new, old) = (new.field(field), old.field(field));
            if old.is_set() && new.value[0] != old.value[0] {
                errors.invalid(new.path.index(0), new.value.clone(), "may not change once set");
            }
        }
    }
    let (class, old_class) = (new.field("loadBalancerClass"), old.field("loadBalancerClass"));
    let both_balancers = new.value["type"] == "LoadBalancer" && old.value["type"] == "LoadBalancer";
    if both_balancers && class.value != old_class.value {
        class.invalid(errors, "may not change once set");
    }
}

fn keep_cluster_ips(spec: &mut Value, old: &Value) {
    if !has_cluster_ip(spec) || !has_cluster_ip(old) {
        return;
    }
    let unset = |value: &Value| value.as_str().is_none_or(str::is_empty);
    let single_unset = unset(&spec["clusterIP"]);
    let list_unset = spec["clusterIPs"].as_array().is_none_or(Vec::is_empty);
    if single_unset && list_unset {
        fill::restore(spec, old, "clusterIP");
        fill::restore(spec, old, "clusterIPs");
    } else if list_unset && spec["clusterIP"] == old["clusterIP"] {
        fill::restore(spec, old, "clusterIPs");
    } else if !list_unset && spec["clusterIPs"] == old["clusterIPs"] && spec["clusterIP"] != old["clusterIP"]
    {
        // Only the single field was changed: the list follows, and validation judges the change.
        let changed = spec["clusterIP"].clone();
        spec["clusterIPs"] = if unset(&changed) { json!([]) } else { json!([changed]) };
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
        (
            had(has_cluster_ip, spec),
            &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"],
        ),
        (had(needs_health_check, spec), &["healthCheckNodePort"]),
        (had(is_balancer, spec), &["allocateLoadBalancerNodePorts", "loadBalancerClass"]),
        (had(externally_accessible, spec), &["externalTrafficPolicy"]),
    ];
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

fn has_cluster_ip(spec: &Value) -> bool {
    spec["type"] != "ExternalName"
}

fn has_node_ports(spec: &Value) -> bool {
    match spec["type"].as_str().unwrap_or_default() {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

fn is_zero(number: &Value) -> bool {
    number.as_i64().unwrap_or_default() == 0
}
