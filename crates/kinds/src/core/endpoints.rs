//! Endpoints: the backends of a Service, all in one object.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Endpoints;
use serde_json::Value;

use crate::At;
use crate::fill;
use crate::table::{self, NONE};
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

const SHOWN: usize = 3;

pub(crate) fn resource() -> Resource {
    Resource::of::<Endpoints>(EndpointsStrategy).created_by_put().short(&["ep"])
}

struct EndpointsStrategy;

impl Strategy for EndpointsStrategy {
    fn default(&self, object: &mut Value) {
        for subset in fill::items(object, "subsets") {
            for port in fill::items(subset, "ports") {
                fill::field(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        for subset in At::root(object).field("subsets").items() {
            validate_subset(&subset, errors);
        }
    }

    fn warnings(&self, _object: &Value) -> Vec<String> {
        vec!["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Endpoints", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![table::name(object), addresses(object).into(), table::age(object, now)]
    }
}

fn validate_subset(subset: &At<'_>, errors: &mut FieldErrors) {
    let (ready, waiting) = (subset.field("addresses"), subset.field("notReadyAddresses"));
    if !ready.is_set() && !waiting.is_set() {
        subset.required(errors, "must specify `addresses` or `notReadyAddresses`");
    }
    for address in ready.items().chain(waiting.items()) {
        let ip = address.field("ip");
        ip.problems(errors, format::endpoint_ip(ip.text()));
        address.field("hostname").has_form(errors, format::label);
        address.field("nodeName").has_form(errors, format::subdomain);
    }
    let ports = subset.field("ports");
    for port in ports.items() {
        let (name, number) = (port.field("name"), port.field("port"));
        match (name.is_set(), ports.len() > 1) {
            (true, _) => name.has_form(errors, format::label),
            (false, true) => name.required(errors, ""),
            (false, false) => {}
        }
        number.problems(errors, format::port_number(number.int().unwrap_or_default()));
        port.field("protocol").need_one_of(errors, &["SCTP", "TCP", "UDP"]);
        port.field("appProtocol").has_form(errors, format::qualified_name);
    }
}

/// `10.0.0.1:80,10.0.0.2:80`, at most three.
fn addresses(object: &Value) -> String {
    let mut list = Vec::new();
    for subset in object["subsets"].as_array().into_iter().flatten() {
        let ips =
            || subset["addresses"].as_array().into_iter().flatten().map(|a| table::text_or(&a["ip"], ""));
        match subset["ports"].as_array().filter(|ports| !ports.is_empty()) {
            None => list.extend(ips()),
            Some(ports) => {
                for port in ports {
                    list.extend(ips().map(|ip| match ip.contains(':') {
                        true => format!("[{ip}]:{}", port["port"]),
                        false => format!("{ip}:{}", port["port"]),
                    }));
                }
            }
        }
    }
    match list.len() {
        0 => NONE.to_owned(),
        n if n > SHOWN => format!("{} + {} more...", list[..SHOWN].join(","), n - SHOWN),
        _ => list.join(","),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        check::errors(
            "endpoints",
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}),
            &[],
        );
        check::errors(
            "endpoints",
            json!({"subsets": [{}, {"addresses": [{"ip": "x"}], "ports": [{"port": 80}, {"port": 81, "name": "b"}]}]}),
            &[
                "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
                "subsets[1].addresses[0].ip: Invalid value: \"x\": must be a valid IP address",
                "subsets[1].ports[0].name: Required value",
            ],
        );
    }

    #[test]
    fn columns() {
        let ips = |n: u8| (1..=n).map(|i| json!({ "ip": format!("10.0.0.{i}") })).collect::<Vec<_>>();
        check::row("endpoints", json!({"metadata": {"name": "a"}}), &["a", "<none>", "<unknown>"]);
        check::row(
            "endpoints",
            json!({"metadata": {"name": "a"}, "subsets": [{"addresses": ips(5), "ports": [{"port": 80}]}]}),
            &["a", "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...", "<unknown>"],
        );
    }
}
