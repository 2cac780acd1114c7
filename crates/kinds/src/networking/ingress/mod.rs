//! Ingress: HTTP routes from outside to Services.

mod validate;

use jiff::Timestamp;
use k8s_openapi::api::networking::v1::Ingress;
use serde_json::{Value, json};

use crate::core::service::columns::balancer_addresses;
use crate::table::{self, NONE};
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

/// Before `spec.ingressClassName` there was only this.
pub(super) const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(crate) fn resource() -> Resource {
    Resource::of::<Ingress>(Ingresses).short(&["ing"]).status().counted()
}

struct Ingresses;

impl Strategy for Ingresses {
    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({ "loadBalancer": {} });
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate::ingress(object, errors);
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        match object["metadata"]["annotations"][CLASS_ANNOTATION].is_null() {
            true => Vec::new(),
            false => vec![format!(
                "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
            )],
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Class", "Hosts", "Address", "Ports", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        vec![
            table::name(object),
            table::text_or(&spec["ingressClassName"], NONE).into(),
            hosts(spec).into(),
            balancer_addresses(&object["status"]["loadBalancer"]).into(),
            if table::count(&spec["tls"]) > 0 { "80, 443" } else { "80" }.into(),
            table::age(object, now),
        ]
    }
}

fn hosts(spec: &Value) -> String {
    const SHOWN: usize = 3;
    let rules = spec["rules"].as_array().map_or(&[][..], Vec::as_slice);
    let hosts: Vec<&str> =
        rules.iter().filter_map(|rule| rule["host"].as_str()).filter(|host| !host.is_empty()).collect();
    match hosts.len() {
        0 => "*".to_owned(),
        n if n > SHOWN => format!("{} + {} more...", hosts[..SHOWN].join(","), rules.len() - SHOWN),
        _ => hosts.join(","),
    }
}

#[cfg(test)]
mod tests;
