//! IPAddress: an address that a Service has taken. Its name is the address.

use jiff::Timestamp;
use k8s_openapi::api::networking::v1::IPAddress;
use serde_json::Value;

use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, NameRule, Resource, Strategy, format};

pub(crate) fn resource() -> Resource {
    Resource::of::<IPAddress>(Addresses).short(&["ip"]).named(NameRule::IpAddress)
}

struct Addresses;

impl Strategy for Addresses {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let parent = At::root(object).field("spec").field("parentRef");
        if !parent.need(errors) {
            return;
        }
        parent.field("group").has_form(errors, format::subdomain);
        parent.field("resource").need_form(errors, format::path_segment);
        parent.field("name").need_form(errors, format::path_segment);
        parent.field("namespace").has_form(errors, format::path_segment);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let parent = |object| At::root(object).field("spec").field("parentRef");
        parent(object).unchanged(errors, &parent(old));
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "ParentRef"]))
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        vec![table::name(object), parent(&object["spec"]["parentRef"]).into()]
    }
}

/// `services/default/web`, `gateways.example.com/default/web`.
fn parent(parent: &Value) -> String {
    if parent.is_null() {
        return table::NONE.to_owned();
    }
    let text = |field: &str| table::text_or(&parent[field], "");
    let resource = [text("resource"), text("group")];
    let resource: Vec<&str> = resource.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let parts = [resource.join("."), text("namespace"), text("name")];
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation_and_columns() {
        let parent = json!({"resource": "services", "namespace": "default", "name": "web"});
        let object = json!({"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": parent}});
        check::errors("ipaddresses", object.clone(), &[]);
        check::row("ipaddresses", object, &["10.0.0.1", "services/default/web"]);
        check::errors("ipaddresses", json!({}), &["spec.parentRef: Required value"]);
    }
}
