//! ClusterRole: rights in the whole cluster.

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::ClusterRole;
use serde_json::Value;

use super::rules::validate_rule;
use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, NameRule, Resource, Strategy, validate_label_selector};

pub(crate) fn resource() -> Resource {
    Resource::of::<ClusterRole>(ClusterRoles).created_by_put().named(NameRule::PathSegment)
}

struct ClusterRoles;

impl Strategy for ClusterRoles {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        for rule in root.field("rules").items() {
            validate_rule(&rule, false, errors);
        }
        let aggregation = root.field("aggregationRule");
        if !aggregation.exists() {
            return;
        }
        let selectors = aggregation.field("clusterRoleSelectors");
        if !selectors.is_set() {
            selectors
                .required(errors, "at least one clusterRoleSelector required if aggregationRule is non-nil");
        }
        for selector in selectors.items() {
            validate_label_selector(selector.value, &selector.path, errors);
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::created_columns())
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        table::created_row(object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    #[test]
    fn rules() {
        #[track_caller]
        fn check(kind: &str, rule: Value, expected: &[&str]) {
            check::errors(kind, json!({ "rules": [rule] }), expected);
        }
        let good = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        check("roles", good.clone(), &[]);
        check("clusterroles", good, &[]);
        check(
            "roles",
            json!({}),
            &[
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        );
        let url = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz"]});
        check("clusterroles", url.clone(), &[]);
        check(
            "roles",
            url,
            &["rules[0].nonResourceURLs: Invalid value: [\"/healthz\"]: namespaced rules cannot apply"],
        );
        check(
            "clusterroles",
            json!({"verbs": ["get"], "nonResourceURLs": ["/"], "resources": ["pods"]}),
            &["rules[0].nonResourceURLs: Invalid value: [\"/\"]: rules cannot apply to both"],
        );
        check::errors(
            "clusterroles",
            json!({"aggregationRule": {}}),
            &[
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required",
            ],
        );
    }

    #[test]
    fn columns() {
        check::row(
            "clusterroles",
            json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}}),
            &["a", "2026-01-01T00:00:00Z"],
        );
    }
}
