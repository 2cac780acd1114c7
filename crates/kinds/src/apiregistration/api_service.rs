//! APIService: a group and version, and who serves it.

use jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::Value;

use crate::At;
use crate::{Cell, Column, FieldErrors, NameRule, Resource, Strategy, format};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<APIService>(ApiServices)
        .versioned_puts()
        .category("api-extensions")
        .named(NameRule::PathSegment)
        .status()
}

struct ApiServices;

impl Strategy for ApiServices {
    fn default(&self, object: &mut Value) {
        if let Some(service) = object.pointer_mut("/spec/service") {
            fill::field(service, "port", 443);
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        let (name, spec) = (root.field("metadata").field("name"), root.field("spec"));
        let (group, version) = (spec.field("group"), spec.field("version"));
        if name.text() != format!("{}.{}", version.text(), group.text()) {
            name.invalid(errors, "must be `spec.version+\".\"+spec.group`");
        }
        match group.text() {
            "" if version.text() != "v1" => {
                group.required(errors, "only v1 may have an empty group and it better be legacy kube");
            }
            "" => {}
            text => group.problems(errors, format::subdomain(text)),
        }
        version.problems(errors, format::label_1035(version.text()));
        for (field, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
            let priority = spec.field(field);
            if !(1..=max).contains(&priority.int().unwrap_or_default()) {
                priority.invalid(errors, format!("must be positive and less than {max}"));
            }
        }
        validate_service(&spec, errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Service", "Available", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let service = &object["spec"]["service"];
        let text = |field: &str| table::text_or(&service[field], "");
        vec![
            table::name(object),
            if service.is_null() {
                "Local".into()
            } else {
                format!("{}/{}", text("namespace"), text("name")).into()
            },
            available(object).into(),
            table::age(object, now),
        ]
    }
}

fn validate_service(spec: &At<'_>, errors: &mut FieldErrors) {
    let (service, bundle, insecure) =
        (spec.field("service"), spec.field("caBundle"), spec.field("insecureSkipTLSVerify"));
    if !service.exists() {
        if bundle.is_set() {
            errors.invalid(bundle.path.clone(), "", "local APIServices may not have a caBundle");
        }
        if insecure.is_true() {
            insecure.invalid(errors, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    service.field("namespace").need(errors);
    service.field("name").need(errors);
    let port = service.field("port");
    port.problems(errors, format::port_number(port.int().unwrap_or_default()));
    if insecure.is_true() && bundle.is_set() {
        insecure.invalid(errors, "may not be true if caBundle is present");
    }
}

fn available(object: &Value) -> String {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    match conditions.find(|condition| condition["type"] == "Available") {
        None => "Unknown".to_owned(),
        Some(condition) if condition["status"] == "True" => "True".to_owned(),
        Some(condition) => format!(
            "{} ({})",
            table::text_or(&condition["status"], "Unknown"),
            table::text_or(&condition["reason"], "")
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        check::errors(
            "apiservices",
            json!({"metadata": {"name": "v1."}, "spec": {"version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}}),
            &[],
        );
        check::errors(
            "apiservices",
            json!({"metadata": {"name": "x"}, "spec": {"version": "v1", "group": "a.b", "service": {"name": "s"},
                "groupPriorityMinimum": 0, "versionPriority": 2000}}),
            &[
                "metadata.name: Invalid value: \"x\": must be `spec.version+\".\"+spec.group`",
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 2000: must be positive and less than 1000",
                "spec.service.namespace: Required value",
            ],
        );
    }

    #[test]
    fn columns() {
        check::row(
            "apiservices",
            json!({"metadata": {"name": "v1."}}),
            &["v1.", "Local", "Unknown", "<unknown>"],
        );
        check::row(
            "apiservices",
            json!({"metadata": {"name": "a"}, "spec": {"service": {"namespace": "n", "name": "s"}},
                "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]}}),
            &["a", "n/s", "False (MissingEndpoints)", "<unknown>"],
        );
    }
}
