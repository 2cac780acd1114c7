//! RuntimeClass: how a pod is run.

use jiff::Timestamp;
use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::Value;

use crate::At;
use crate::metadata::validate_labels;
use crate::pod_spec::defaults::canonical_field;
use crate::table;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

pub(crate) fn resource() -> Resource {
    Resource::of::<RuntimeClass>(RuntimeClasses).versioned_puts()
}

struct RuntimeClasses;

impl Strategy for RuntimeClasses {
    fn default(&self, object: &mut Value) {
        if let Some(overhead) = object.get_mut("overhead") {
            canonical_field(overhead, "podFixed");
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        let handler = root.field("handler");
        handler.problems(errors, format::label(handler.text()));
        for (_, amount) in root.field("overhead").field("podFixed").entries() {
            amount.quantity_not_negative(errors);
        }
        let selector = root.field("scheduling").field("nodeSelector");
        validate_labels(selector.value, &selector.path, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        At::root(object).field("handler").unchanged(errors, &At::root(old).field("handler"));
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Handler", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![table::name(object), table::text_or(&object["handler"], "").into(), table::age(object, now)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        check::errors("runtimeclasses", json!({"handler": "runc"}), &[]);
        check::errors(
            "runtimeclasses",
            json!({"handler": "R"}),
            &["handler: Invalid value: \"R\": a lowercase"],
        );
        check::update_errors(
            "runtimeclasses",
            json!({"handler": "a"}),
            json!({"handler": "b"}),
            &["handler: Invalid value: \"a\": field is immutable"],
        );
    }
}
