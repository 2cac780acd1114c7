//! MutatingAdmissionPolicyBinding: where a MutatingAdmissionPolicy applies.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicyBinding;
use serde_json::Value;

use super::policies;
use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<MutatingAdmissionPolicyBinding>(Bindings).category("api-extensions").counted()
}

struct Bindings;

impl Strategy for Bindings {
    fn default(&self, object: &mut Value) {
        policies::default_binding(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        policies::validate_binding(&At::root(object).field("spec"), errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(policies::binding_columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        policies::binding_row(object, now)
    }
}
