//! IngressClass: which controller serves an Ingress.

use jiff::Timestamp;
use k8s_openapi::api::networking::v1::IngressClass;
use serde_json::Value;

use crate::At;
use crate::fill;
use crate::table::{self, NONE};
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

const MAX_CONTROLLER: usize = 250;

pub(crate) fn resource() -> Resource {
    Resource::of::<IngressClass>(IngressClasses).counted()
}

struct IngressClasses;

impl Strategy for IngressClasses {
    fn default(&self, object: &mut Value) {
        if let Some(parameters) = object.pointer_mut("/spec/parameters") {
            fill::field(parameters, "scope", "Cluster");
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let controller = spec.field("controller");
        if controller.text().len() > MAX_CONTROLLER {
            errors.too_long(controller.path.clone(), MAX_CONTROLLER);
        }
        controller.need_form(errors, format::domain_prefixed_path);
        let parameters = spec.field("parameters");
        if !parameters.exists() {
            return;
        }
        parameters.field("apiGroup").has_form(errors, format::subdomain);
        parameters.field("kind").need_form(errors, format::path_segment);
        parameters.field("name").need_form(errors, format::path_segment);
        let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
        scope.need_one_of(errors, &["Cluster", "Namespace"]);
        match (scope.text(), namespace.exists()) {
            ("Namespace", false) => {
                namespace.required(errors, "`parameters.scope` is set to 'Namespace'");
            }
            ("Namespace", true) => namespace.problems(errors, format::label(namespace.text())),
            ("Cluster", true) => namespace.forbidden(errors, "`parameters.scope` is set to 'Cluster'"),
            _ => {}
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let controller = |object| At::root(object).field("spec").field("controller");
        controller(object).unchanged(errors, &controller(old));
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Controller", "Parameters", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        vec![
            table::name(object),
            table::text_or(&spec["controller"], "").into(),
            parameters(&spec["parameters"]).into(),
            table::age(object, now),
        ]
    }
}

fn parameters(parameters: &Value) -> String {
    let text = |field: &str| table::text_or(&parameters[field], "");
    match (parameters.is_null(), text("apiGroup").is_empty()) {
        (true, _) => NONE.to_owned(),
        (false, true) => format!("{}/{}", text("kind"), text("name")),
        (false, false) => format!("{}.{}/{}", text("kind"), text("apiGroup"), text("name")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        check::errors("ingressclasses", json!({"spec": {"controller": "example.com/x"}}), &[]);
        check::errors(
            "ingressclasses",
            json!({"spec": {"controller": "x", "parameters": {"kind": "K", "name": "n", "scope": "Namespace"}}}),
            &[
                "spec.controller: Invalid value: \"x\": must be a domain-prefixed path (such as \"acme.io/foo\")",
                "spec.parameters.namespace: Required value",
            ],
        );
        check::update_errors(
            "ingressclasses",
            json!({"spec": {"controller": "a.b/x"}}),
            json!({"spec": {"controller": "a.b/y"}}),
            &["spec.controller: Invalid value: \"a.b/x\": field is immutable"],
        );
    }

    #[test]
    fn columns() {
        check::row(
            "ingressclasses",
            json!({"metadata": {"name": "a"}, "spec": {"controller": "a.b/x",
                "parameters": {"apiGroup": "g.io", "kind": "K", "name": "n"}}}),
            &["a", "a.b/x", "K.g.io/n", "<unknown>"],
        );
    }
}
