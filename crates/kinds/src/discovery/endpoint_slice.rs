//! EndpointSlice: some of the backends of a Service.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use crate::At;
use crate::fill;
use crate::table::{self, UNSET};
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

const MAX_ENDPOINTS: usize = 1000;
const MAX_PORTS: usize = 20_000;
const MAX_ADDRESSES: usize = 100;
const SHOWN: usize = 3;

pub(crate) fn resource() -> Resource {
    Resource::of::<EndpointSlice>(Slices).counted()
}

struct Slices;

impl Strategy for Slices {
    fn default(&self, object: &mut Value) {
        for port in fill::items(object, "ports") {
            fill::field(port, "name", "");
            fill::field(port, "protocol", "TCP");
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        fill::field(object, "endpoints", json!([]));
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        let ty = root.field("addressType");
        ty.need_one_of(errors, &["FQDN", "IPv4", "IPv6"]);
        let endpoints = root.field("endpoints");
        match endpoints.len() > MAX_ENDPOINTS {
            true => errors.too_many(endpoints.path.clone(), endpoints.len(), MAX_ENDPOINTS),
            false => endpoints.items().for_each(|endpoint| validate_endpoint(&endpoint, ty.text(), errors)),
        }
        validate_ports(&root.field("ports"), errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        At::root(object).field("addressType").unchanged(errors, &At::root(old).field("addressType"));
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "AddressType", "Ports", "Endpoints", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let ports = object["ports"].as_array().into_iter().flatten();
        let ports = ports.map(|port| table::text_or(&port["port"], "*")).collect();
        let endpoints = object["endpoints"].as_array().into_iter().flatten();
        let addresses = endpoints
            .flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten())
            .map(|address| table::text_or(address, ""))
            .collect();
        vec![
            table::name(object),
            table::text_or(&object["addressType"], "").into(),
            some_of(ports).into(),
            some_of(addresses).into(),
            table::age(object, now),
        ]
    }
}

fn validate_endpoint(endpoint: &At<'_>, ty: &str, errors: &mut FieldErrors) {
    let addresses = endpoint.field("addresses");
    match addresses.len() {
        0 => addresses.required(errors, "must contain at least 1 address"),
        n if n > MAX_ADDRESSES => errors.too_many(addresses.path.clone(), n, MAX_ADDRESSES),
        _ => {}
    }
    for address in addresses.items() {
        let text = address.text();
        match ty {
            "IPv4" if text.parse::<Ipv4Addr>().is_err() => {
                address.invalid(errors, "must be a valid IPv4 address");
            }
            "IPv6" if text.parse::<Ipv6Addr>().is_err() => {
                address.invalid(errors, "must be a valid IPv6 address");
            }
            "IPv4" | "IPv6" => address.problems(errors, format::endpoint_ip(text)),
            "FQDN" => address.problems(errors, format::subdomain(text)),
            _ => {}
        }
    }
    endpoint.field("hostname").has_form(errors, format::label);
    endpoint.field("nodeName").has_form(errors, format::subdomain);
}

fn validate_ports(ports: &At<'_>, errors: &mut FieldErrors) {
    if ports.len() > MAX_PORTS {
        errors.too_many(ports.path.clone(), ports.len(), MAX_PORTS);
        return;
    }
    let mut names = HashSet::new();
    for port in ports.items() {
        let (name, number) = (port.field("name"), port.field("port"));
        name.has_form(errors, format::label);
        if !names.insert(name.text()) {
            name.duplicate(errors);
        }
        port.field("protocol").need_one_of(errors, &["SCTP", "TCP", "UDP"]);
        if let Some(number_value) = number.int() {
            number.problems(errors, format::port_number(number_value));
        }
        port.field("appProtocol").has_form(errors, format::qualified_name);
    }
}

fn some_of(texts: Vec<String>) -> String {
    match texts.len() {
        0 => UNSET.to_owned(),
        n if n > SHOWN => format!("{} + {} more...", texts[..SHOWN].join(","), n - SHOWN),
        _ => texts.join(","),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn defaults() {
        check::defaults(
            "endpointslices",
            json!({"ports": [{"port": 80}]}),
            json!({"ports": [{"port": 80, "name": "", "protocol": "TCP"}]}),
        );
    }

    #[test]
    fn validation() {
        check::errors(
            "endpointslices",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}),
            &[],
        );
        check::errors(
            "endpointslices",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": []}, {"addresses": ["::1", "127.0.0.1"]}],
                "ports": [{"port": 0}, {"port": 1}]}),
            &[
                "endpoints[0].addresses: Required value: must contain at least 1 address",
                "endpoints[1].addresses[0]: Invalid value: \"::1\": must be a valid IPv4 address",
                "endpoints[1].addresses[1]: Invalid value: \"127.0.0.1\": may not be in the loopback range",
                "ports[0].port: Invalid value: 0: must be between 1 and 65535",
                "ports[1].name: Duplicate value: \"\"",
            ],
        );
        check::errors("endpointslices", json!({}), &["addressType: Required value"]);
    }

    #[test]
    fn columns() {
        check::row(
            "endpointslices",
            json!({"metadata": {"name": "a"}, "addressType": "IPv4", "ports": [{"port": 80}, {}],
                "endpoints": [{"addresses": ["1", "2"]}, {"addresses": ["3", "4"]}]}),
            &["a", "IPv4", "80,*", "1,2,3 + 1 more...", "<unknown>"],
        );
        check::row(
            "endpointslices",
            json!({"metadata": {"name": "a"}}),
            &["a", "", "<unset>", "<unset>", "<unknown>"],
        );
    }
}
