//! RoleBinding: who has a role in a namespace.

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::RoleBinding;
use serde_json::Value;

use super::binding_columns;
use super::rules::{default_binding, validate_binding, validate_binding_update};
use crate::{Cell, Column, FieldErrors, NameRule, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<RoleBinding>(RoleBindings).created_by_put().named(NameRule::PathSegment)
}

struct RoleBindings;

impl Strategy for RoleBindings {
    fn default(&self, object: &mut Value) {
        default_binding(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate_binding(object, true, errors);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn defaults() {
        check::defaults(
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]}),
            json!({
                "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [
                    {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                    {"kind": "ServiceAccount", "name": "s"},
                ],
            }),
        );
    }

    #[test]
    fn validation() {
        let account = json!({"kind": "ServiceAccount", "name": "s"});
        check::errors(
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [account]}),
            &[],
        );
        check::errors(
            "clusterrolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [account]}),
            &[
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "subjects[0].namespace: Required value",
            ],
        );
        check::errors(
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "apiGroup": "x"}, "subjects": [{"kind": "Robot"}]}),
            &[
                "roleRef.apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
                "roleRef.name: Required value",
                "subjects[0].name: Required value",
                "subjects[0].kind: Unsupported value: \"Robot\"",
            ],
        );
        check::update_errors(
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "a"}}),
            json!({"roleRef": {"kind": "Role", "name": "b"}}),
            &["roleRef: Invalid value: {"],
        );
    }

    #[test]
    fn columns() {
        check::row(
            "clusterrolebindings",
            json!({"metadata": {"name": "a"}, "roleRef": {"kind": "ClusterRole", "name": "admin"}, "subjects": [
                {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
            &["a", "ClusterRole/admin", "<unknown>", "u, v", "", "n/s"],
        );
    }
}
