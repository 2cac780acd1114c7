//! What `kubectl get` shows.

use jiff::Timestamp;
use minik8s_api::{Cell, table};
use serde_json::Value;

pub fn gateway_class(object: &Value, now: Timestamp) -> Vec<Cell> {
    vec![
        table::name(object),
        table::text_or(&object["spec"]["controllerName"], table::NONE).into(),
        condition(object, "Accepted").into(),
        table::age(object, now),
    ]
}

pub fn gateway(object: &Value, now: Timestamp) -> Vec<Cell> {
    let addresses = object["status"]["addresses"].as_array().into_iter().flatten();
    let addresses: Vec<&str> = addresses.filter_map(|address| address["value"].as_str()).collect();
    vec![
        table::name(object),
        table::text_or(&object["spec"]["gatewayClassName"], table::NONE).into(),
        addresses.join(",").into(),
        condition(object, "Programmed").into(),
        table::age(object, now),
    ]
}

pub fn listener_set(object: &Value, now: Timestamp) -> Vec<Cell> {
    vec![
        table::name(object),
        condition(object, "Accepted").into(),
        condition(object, "Programmed").into(),
        table::age(object, now),
    ]
}

pub fn route(object: &Value, now: Timestamp) -> Vec<Cell> {
    let hosts = match &object["spec"]["hostnames"] {
        Value::Array(hosts) => Value::Array(hosts.clone()).to_string(),
        _ => String::new(),
    };
    vec![table::name(object), hosts.into(), table::age(object, now)]
}

pub fn plain(object: &Value, now: Timestamp) -> Vec<Cell> {
    vec![table::name(object), table::age(object, now)]
}

fn condition(object: &Value, kind: &str) -> String {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == kind);
    found.map_or("Unknown".to_owned(), |condition| table::text_or(&condition["status"], "Unknown"))
}
