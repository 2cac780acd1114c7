//! `kubectl get services`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::table::{self, NONE};
use crate::{Cell, Column};

pub(super) fn columns() -> Vec<Column> {
    table::texts_and_wide(&["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age"], &["Selector"])
}

pub(super) fn row(object: &Value, now: Timestamp) -> Vec<Cell> {
    let spec = &object["spec"];
    vec![
        table::name(object),
        spec["type"].clone(),
        table::text_or(&spec["clusterIP"], NONE).into(),
        external_ip(object).into(),
        ports(spec).into(),
        table::age(object, now),
        json!(table::labels(&spec["selector"])),
    ]
}

fn external_ip(object: &Value) -> String {
    let spec = &object["spec"];
    let own = table::joined_or(&spec["externalIPs"], "");
    match spec["type"].as_str().unwrap_or_default() {
        "ExternalName" => table::text_or(&spec["externalName"], NONE),
        "LoadBalancer" => {
            let given = balancer_addresses(&object["status"]["loadBalancer"]);
            match (given.is_empty(), own.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (false, true) => given,
                (true, false) => own,
                (false, false) => format!("{given},{own}"),
            }
        }
        "ClusterIP" | "NodePort" if own.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => own,
        _ => table::UNKNOWN.to_owned(),
    }
}

/// The addresses or names of a load balancer status, sorted: Services and Ingresses show them alike.
pub(crate) fn balancer_addresses(status: &Value) -> String {
    let ingress = status["ingress"].as_array().into_iter().flatten();
    let addresses: BTreeSet<&str> = ingress
        .filter_map(|point| {
            let text = |field: &str| point[field].as_str().filter(|text| !text.is_empty());
            text("ip").or_else(|| text("hostname"))
        })
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn ports(spec: &Value) -> String {
    let ports: Vec<String> = spec["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or_default();
            match port["nodePort"].as_i64() {
                Some(node) if node > 0 => format!("{}:{node}/{protocol}", port["port"]),
                _ => format!("{}/{protocol}", port["port"]),
            }
        })
        .collect();
    if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
}
