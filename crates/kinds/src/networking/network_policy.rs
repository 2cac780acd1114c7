//! NetworkPolicy: which pods may talk to which.

use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format, validate_label_selector};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<NetworkPolicy>(Policies).short(&["netpol"]).counted()
}

struct Policies;

impl Strategy for Policies {
    fn default(&self, object: &mut Value) {
        let Some(spec) = fill::object(object, "spec") else { return };
        for direction in ["ingress", "egress"] {
            for rule in fill::items(spec, direction) {
                for port in fill::items(rule, "ports") {
                    fill::field(port, "protocol", "TCP");
                }
            }
        }
        if spec["policyTypes"].as_array().is_none_or(Vec::is_empty) {
            spec["policyTypes"] = match table::count(&spec["egress"]) {
                0 => json!(["Ingress"]),
                _ => json!(["Ingress", "Egress"]),
            };
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let selector = spec.field("podSelector");
        validate_label_selector(selector.value, &selector.path, errors);
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for rule in spec.field(direction).items() {
                rule.field("ports").items().for_each(|port| validate_port(&port, errors));
                rule.field(peers).items().for_each(|peer| validate_peer(&peer, errors));
            }
        }
        let types = spec.field("policyTypes");
        if types.len() > 2 {
            types.invalid(errors, "may not specify more than two policyTypes");
            return;
        }
        for ty in types.items() {
            ty.one_of(errors, &["Egress", "Ingress"]);
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Pod-Selector", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![
            table::name(object),
            table::selector(&object["spec"]["podSelector"]).into(),
            table::age(object, now),
        ]
    }
}

fn validate_port(entry: &At<'_>, errors: &mut FieldErrors) {
    entry.field("protocol").one_of(errors, &["SCTP", "TCP", "UDP"]);
    let (port, end) = (entry.field("port"), entry.field("endPort"));
    match port.value {
        Value::String(name) => {
            if end.exists() {
                end.invalid(errors, "may not be specified when `port` is non-numeric");
            }
            port.problems(errors, format::port_name(name));
        }
        Value::Number(_) => {
            port.problems(errors, format::port_number(port.int().unwrap_or_default()));
            if let Some(last) = end.int() {
                if last < port.int().unwrap_or_default() {
                    end.invalid(errors, "must be greater than or equal to `port`");
                }
                end.problems(errors, format::port_number(last));
            }
        }
        _ if end.exists() => end.invalid(errors, "may not be specified when `port` is not specified"),
        _ => {}
    }
}

fn validate_peer(peer: &At<'_>, errors: &mut FieldErrors) {
    let selectors = ["podSelector", "namespaceSelector"].map(|name| peer.field(name));
    let block = peer.field("ipBlock");
    let selected = selectors.iter().any(At::exists);
    for selector in selectors {
        validate_label_selector(selector.value, &selector.path, errors);
    }
    match (selected, block.exists()) {
        (false, false) => peer.required(errors, "must specify a peer"),
        (true, true) => peer.forbidden(errors, "may not specify both ipBlock and another peer"),
        (false, true) => validate_block(&block, errors),
        (true, false) => {}
    }
}

fn validate_block(block: &At<'_>, errors: &mut FieldErrors) {
    let cidr = block.field("cidr");
    cidr.need_form(errors, format::cidr);
    let whole = cidr.text().parse::<IpNet>();
    for except in block.field("except").items() {
        let problems = format::cidr(except.text());
        if let (Ok(whole), Ok(part)) = (&whole, except.text().parse::<IpNet>())
            && (!whole.contains(&part) || whole.prefix_len() == part.prefix_len())
        {
            except.invalid(errors, "must be a strict subset of `cidr`");
        }
        except.problems(errors, problems);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn defaults() {
        check::defaults(
            "networkpolicies",
            json!({"spec": {"ingress": [{"ports": [{"port": 80}]}]}}),
            json!({"spec": {"ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}], "policyTypes": ["Ingress"]}}),
        );
        check::defaults(
            "networkpolicies",
            json!({"spec": {"egress": [{}]}}),
            json!({"spec": {"egress": [{}], "policyTypes": ["Ingress", "Egress"]}}),
        );
    }

    #[test]
    fn validation() {
        check::errors(
            "networkpolicies",
            json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}]}}),
            &[],
        );
        check::errors(
            "networkpolicies",
            json!({"spec": {
                "podSelector": {"matchLabels": {"a b": ""}},
                "ingress": [{
                    "ports": [{"port": "http", "endPort": 90}, {"endPort": 1}, {"port": 90, "endPort": 80, "protocol": "ICMP"}],
                    "from": [{}, {"podSelector": {}, "ipBlock": {}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/9", "x"]}}],
                }],
                "policyTypes": ["Both"],
            }}),
            &[
                "spec.podSelector.matchLabels: Invalid value: \"a b\"",
                "spec.ingress[0].ports[0].endPort: Invalid value: 90: may not be specified when `port` is non-numeric",
                "spec.ingress[0].ports[1].endPort: Invalid value: 1: may not be specified when `port` is not specified",
                "spec.ingress[0].ports[2].protocol: Unsupported value: \"ICMP\"",
                "spec.ingress[0].ports[2].endPort: Invalid value: 80: must be greater than or equal to `port`",
                "spec.ingress[0].from[0]: Required value: must specify a peer",
                "spec.ingress[0].from[1]: Forbidden: may not specify both ipBlock and another peer",
                "spec.ingress[0].from[2].ipBlock.except[0]: Invalid value: \"11.0.0.0/9\": must be a strict subset of `cidr`",
                "spec.ingress[0].from[2].ipBlock.except[1]: Invalid value: \"x\": must be a valid CIDR value",
                "spec.policyTypes[0]: Unsupported value: \"Both\"",
            ],
        );
    }

    #[test]
    fn columns() {
        let policy = |selector| json!({"metadata": {"name": "a"}, "spec": {"podSelector": selector}});
        check::row("networkpolicies", policy(json!({})), &["a", "<none>", "<unknown>"]);
        check::row(
            "networkpolicies",
            policy(
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "a"]}]}),
            ),
            &["a", "app=web,tier in (a,b)", "<unknown>"],
        );
    }
}
