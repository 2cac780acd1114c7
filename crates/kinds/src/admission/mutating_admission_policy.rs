//! MutatingAdmissionPolicy: changes requests with expressions.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicy;
use minik8s_cel::policy::Expected;
use serde_json::Value;

use super::policies::{self, Expressions};
use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<MutatingAdmissionPolicy>(Policies).category("api-extensions").counted()
}

struct Policies;

impl Strategy for Policies {
    fn default(&self, object: &mut Value) {
        policies::default_policy(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let expressions = policies::validate_policy(&spec, true, errors);
        for rule in spec.field("matchConstraints").field("resourceRules").items() {
            for operation in rule.field("operations").items() {
                operation.one_of(errors, &["CREATE", "UPDATE"]);
            }
        }
        spec.field("reinvocationPolicy").need_one_of(errors, &["IfNeeded", "Never"]);
        let mutations = spec.field("mutations");
        if !mutations.is_set() {
            mutations.required(errors, "mutations must contain at least one item");
        }
        for mutation in mutations.items() {
            validate_mutation(&mutation, &expressions, errors);
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(policies::policy_columns("Mutations"))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        policies::policy_row(object, "mutations", now)
    }
}

fn validate_mutation(mutation: &At<'_>, expressions: &Expressions, errors: &mut FieldErrors) {
    let ty = mutation.field("patchType");
    ty.need_one_of(errors, &["ApplyConfiguration", "JSONPatch"]);
    let (wanted, other, expected) = match ty.text() {
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Expected::ApplyConfiguration),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Expected::JsonPatch),
        _ => return,
    };
    let (wanted, other) = (mutation.field(wanted), mutation.field(other));
    if wanted.exists() {
        expressions.validate(&wanted.field("expression"), expected, true, errors);
    } else {
        wanted.required(errors, &format!("must be specified when patchType is {}", ty.text()));
    }
    if other.exists() {
        other.invalid(errors, format!("must not be specified when patchType is {}", ty.text()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        let rule = json!({"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]});
        let policy = |rule: &serde_json::Value, mutations: serde_json::Value| json!({"spec": {"matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never", "mutations": mutations}});
        let apply = |expression: &str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
        let patch =
            |expression: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
        let good = json!([
            apply("Object{spec: Object.spec{replicas: 1}}"),
            patch("[JSONPatch{op: 'remove', path: '/a'}]")
        ]);
        check::errors("mutatingadmissionpolicies", policy(&rule, good), &[]);
        let mut deleting = rule;
        deleting["operations"] = json!(["DELETE"]);
        check::errors(
            "mutatingadmissionpolicies",
            policy(
                &deleting,
                json!([apply("object"), patch("[]"), {"patchType": "JSONPatch", "applyConfiguration": {}}]),
            ),
            &[
                "spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: \"DELETE\"",
                "spec.mutations[0].applyConfiguration.expression: Invalid value: \"object\": must evaluate to Object but got dyn",
                "spec.mutations[1].jsonPatch.expression: Invalid value: \"[]\": must evaluate to list(JSONPatch) but got list(dyn)",
                "spec.mutations[2].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                "spec.mutations[2].applyConfiguration: Invalid value",
            ],
        );
    }
}
