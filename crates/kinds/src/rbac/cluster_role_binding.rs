//! ClusterRoleBinding: who has a ClusterRole everywhere.

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use serde_json::Value;

use super::binding_columns;
use super::rules::{default_binding, validate_binding, validate_binding_update};
use crate::{Cell, Column, FieldErrors, NameRule, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<ClusterRoleBinding>(ClusterRoleBindings).created_by_put().named(NameRule::PathSegment)
}

struct ClusterRoleBindings;

impl Strategy for ClusterRoleBindings {
    fn default(&self, object: &mut Value) {
        default_binding(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate_binding(object, false, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validate_binding_update(object, old, errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(binding_columns::columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        binding_columns::row(object, now)
    }
}
