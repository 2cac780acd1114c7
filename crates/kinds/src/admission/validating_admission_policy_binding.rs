//! ValidatingAdmissionPolicyBinding: where a ValidatingAdmissionPolicy applies.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use serde_json::Value;

use super::policies;
use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<ValidatingAdmissionPolicyBinding>(Bindings)
        .versioned_puts()
        .category("api-extensions")
        .counted()
}

struct Bindings;

impl Strategy for Bindings {
    fn default(&self, object: &mut Value) {
        policies::default_binding(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        policies::validate_binding(&spec, errors);
        let actions = spec.field("validationActions");
        actions.need(errors);
        let mut seen = HashSet::new();
        for action in actions.items() {
            action.one_of(errors, &["Audit", "Deny", "Warn"]);
            if !seen.insert(action.text()) {
                action.duplicate(errors);
            }
        }
        if seen.contains("Deny") && seen.contains("Warn") {
            actions.invalid(
                errors,
                "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
            );
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(policies::binding_columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        policies::binding_row(object, now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        let good = json!({"metadata": {"name": "b"}, "spec": {"policyName": "a", "validationActions": ["Deny"],
            "paramRef": {"name": "p", "namespace": "n", "parameterNotFoundAction": "Deny"}}});
        check::errors("validatingadmissionpolicybindings", good.clone(), &[]);
        check::row("validatingadmissionpolicybindings", good, &["b", "a", "n/p", "<unknown>"]);
        check::errors(
            "validatingadmissionpolicybindings",
            json!({"spec": {"validationActions": ["Deny", "Warn", "Deny"], "paramRef": {}}}),
            &[
                "spec.policyName: Required value",
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
                "spec.validationActions[2]: Duplicate value: \"Deny\"",
                "spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"Deny\"]: must not contain both",
            ],
        );
    }
}
