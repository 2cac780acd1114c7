//! MutatingAdmissionPolicy: changes requests with expressions.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicy;
use serde_json::Value;

use super::policies;
use crate::kinds::at::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<MutatingAdmissionPolicy>(Policies).category("api-extensions").counted()
}

struct Policies;

impl Strategy for Policies {
    fn default(&self, object: &mut Value) {
        policies::default_policy(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        policies::validate_policy(&spec, errors);
        spec.field("reinvocationPolicy").need_one_of(errors, &["IfNeeded", "Never"]);
        let mutations = spec.field("mutations");
        mutations.need(errors);
        for mutation in mutations.items() {
            let ty = mutation.field("patchType");
            ty.need_one_of(errors, &["ApplyConfiguration", "JSONPatch"]);
            let (wanted, other) = match ty.text() {
                "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
                "JSONPatch" => ("jsonPatch", "applyConfiguration"),
                _ => continue,
            };
            mutation.field(wanted).field("expression").need(errors);
            if mutation.field(other).exists() {
                mutation
                    .field(other)
                    .invalid(errors, format!("must not be set when patchType is {}", ty.text()));
            }
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(policies::policy_columns("Mutations"))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        policies::policy_row(object, "mutations", now)
    }
}
