//! Role: rights in a namespace.

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::Role;
use serde_json::Value;

use super::rules::validate_rule;
use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, NameRule, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<Role>(Roles).created_by_put().named(NameRule::PathSegment)
}

struct Roles;

impl Strategy for Roles {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        for rule in At::root(object).field("rules").items() {
            validate_rule(&rule, true, errors);
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::created_columns())
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        table::created_row(object)
    }
}
