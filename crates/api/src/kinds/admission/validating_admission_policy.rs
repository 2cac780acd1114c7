//! ValidatingAdmissionPolicy: refuses requests with expressions.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use serde_json::{Value, json};

use super::policies;
use crate::kinds::at::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ValidatingAdmissionPolicy>(Policies)
        .versioned_puts()
        .category("api-extensions")
        .status()
        .counted()
}

struct Policies;

impl Strategy for Policies {
    fn default(&self, object: &mut Value) {
        policies::default_policy(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        policies::validate_policy(&spec, errors);
        let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
        if !validations.is_set() && !annotations.is_set() {
            for field in [&validations, &annotations] {
                field.required(errors, "validations or auditAnnotations must be set");
            }
        }
        for validation in validations.items() {
            validation.field("expression").need(errors);
            validation.field("reason").one_of(errors, REASONS);
            let message = validation.field("message");
            if message.text().contains('\n') {
                message.invalid(errors, "message must not contain line breaks");
            }
        }
        for annotation in annotations.items() {
            annotation.field("key").need(errors);
            annotation.field("valueExpression").need(errors);
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(policies::policy_columns("Validations"))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        policies::policy_row(object, "validations", now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::check;

    #[test]
    fn validation() {
        let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        let good = json!({"metadata": {"name": "a"}, "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}});
        check::errors("validatingadmissionpolicies", good.clone(), &[]);
        check::row("validatingadmissionpolicies", good, &["a", "1", "<unset>", "<unknown>"]);
        check::errors(
            "validatingadmissionpolicies",
            json!({"spec": {"failurePolicy": "Shrug"}}),
            &[
                "spec.failurePolicy: Unsupported value: \"Shrug\"",
                "spec.matchConstraints: Required value",
                "spec.validations: Required value: validations or auditAnnotations must be set",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must be set",
            ],
        );
    }
}
