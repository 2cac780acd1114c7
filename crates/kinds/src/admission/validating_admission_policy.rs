//! ValidatingAdmissionPolicy: refuses requests with expressions.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use minik8s_cel::policy::Expected;
use serde_json::{Value, json};

use super::policies::{self, Expressions};
use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

const MAX_ANNOTATIONS: usize = 20;

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];

pub(crate) fn resource() -> Resource {
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
        let root = At::root(object);
        let spec = root.field("spec");
        let expressions = policies::validate_policy(&spec, false, errors);
        let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
        if !validations.is_set() && !annotations.is_set() {
            for field in [&validations, &annotations] {
                field.required(errors, "validations or auditAnnotations must contain at least one item");
            }
        }
        for validation in validations.items() {
            validate_validation(&validation, &expressions, errors);
        }
        if annotations.len() > MAX_ANNOTATIONS {
            let why = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
            annotations.invalid(errors, why);
        }
        let mut keys = HashSet::new();
        for annotation in annotations.items() {
            let key = annotation.field("key");
            validate_key(&root.field("metadata").field("name"), &key, errors);
            expressions.validate(&annotation.field("valueExpression"), Expected::StringOrNull, true, errors);
            if !keys.insert(key.text()) {
                key.duplicate(errors);
            }
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(policies::policy_columns("Validations"))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        policies::policy_row(object, "validations", now)
    }
}

fn validate_validation(validation: &At<'_>, expressions: &Expressions, errors: &mut FieldErrors) {
    expressions.validate(&validation.field("expression"), Expected::Bool, true, errors);
    let (message, computed) = (validation.field("message"), validation.field("messageExpression"));
    if computed.is_set() && computed.text().trim().is_empty() {
        computed.invalid(errors, "must be non-empty if specified");
    } else if computed.is_set() {
        expressions.validate(&computed, Expected::String, false, errors);
    }
    if message.is_set() && message.text().trim().is_empty() {
        message.invalid(errors, "must be non-empty if specified");
    } else if message.text().trim().contains(['\n', '\r']) {
        message.invalid(errors, "must not contain line breaks");
    }
    validation.field("reason").one_of(errors, REASONS);
}

/// The annotation is written as `POLICY/KEY`.
fn validate_key(policy: &At<'_>, key: &At<'_>, errors: &mut FieldErrors) {
    match policy.text() {
        "" => key.invalid(errors, "requires metadata.name be non-empty"),
        name => key.problems(errors, format::qualified_name(&format!("{name}/{}", key.text()))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

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
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ],
        );
    }
    /// As upstream words it, with the place in the expression.
    #[test]
    fn expressions_must_compile() {
        let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        let policy = |fields: serde_json::Value| {
            let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}});
            spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            json!({"metadata": {"name": "a.example.com"}, "spec": spec})
        };
        check::errors(
            "validatingadmissionpolicies",
            policy(json!({
                "variables": [{"name": "x", "expression": "object.a"}, {"name": "if", "expression": "variables.y"}, {"name": "z"}],
                "validations": [
                    {"expression": "object.a >"},
                    {"expression": "variables.x", "message": " "},
                    {"expression": "params.a == 1", "messageExpression": "authorizer.path('/').check('get').reason()"},
                    {"expression": "has(object.b) && variables.x == 1", "messageExpression": "'b ' + string(object.b)",
                     "message": "a\nb", "reason": "Because"},
                ],
                "auditAnnotations": [{"key": "k", "valueExpression": "1"}, {"key": "k", "valueExpression": "null"}, {"key": "k k"}],
            })),
            &[
                "spec.variables[1].name: Invalid value: \"if\": must be a valid CEL identifier",
                "spec.variables[1].expression: Invalid value: \"variables.y\": compilation failed: ERROR: <input>:1:10: undefined field 'y'",
                "spec.variables[2].expression: Required value: expression is not specified",
                "spec.validations[0].expression: Invalid value: \"object.a >\": compilation failed: ERROR: <input>:1:11: Syntax error",
                "spec.validations[1].expression: Invalid value: \"variables.x\": must evaluate to bool but got dyn",
                "spec.validations[1].message: Invalid value: \" \": must be non-empty if specified",
                "spec.validations[2].expression: Invalid value: \"params.a == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'",
                "spec.validations[2].messageExpression: Invalid value: \"authorizer.path('/').check('get').reason()\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer'",
                "spec.validations[3].message: Invalid value: \"a\\nb\": must not contain line breaks",
                "spec.validations[3].reason: Unsupported value: \"Because\"",
                "spec.auditAnnotations[0].valueExpression: Invalid value: \"1\": must evaluate to one of [string null_type] but got int",
                "spec.auditAnnotations[1].key: Duplicate value: \"k\"",
                "spec.auditAnnotations[2].key: Invalid value: \"k k\"",
                "spec.auditAnnotations[2].valueExpression: Required value: valueExpression is not specified",
            ],
        );
        let with_params = policy(
            json!({"paramKind": {"apiVersion": "a/b/c", "kind": "9"}, "validations": [{"expression": "params.a == 1"}]}),
        );
        check::errors(
            "validatingadmissionpolicies",
            with_params,
            &[
                "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
                "spec.paramKind.kind: Invalid value: \"9\": may have mixed case, but should otherwise match",
            ],
        );
    }
}
