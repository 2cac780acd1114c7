//! The rules of roles and the parts of bindings.

use serde_json::Value;

use crate::At;
use crate::fill;
use crate::{FieldErrors, format};

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// A rule gives verbs on resources, or (in the whole cluster only) on other URLs.
pub(super) fn validate_rule(rule: &At<'_>, namespaced: bool, errors: &mut FieldErrors) {
    let verbs = rule.field("verbs");
    if !verbs.is_set() {
        verbs.required(errors, "verbs must contain at least one value");
    }
    let urls = rule.field("nonResourceURLs");
    let (groups, resources) = (rule.field("apiGroups"), rule.field("resources"));
    if urls.is_set() {
        if namespaced {
            urls.invalid(errors, "namespaced rules cannot apply to non-resource URLs");
        }
        if groups.is_set() || resources.is_set() || rule.field("resourceNames").is_set() {
            urls.invalid(errors, "rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if !groups.is_set() {
        groups.required(errors, "resource rules must supply at least one api group");
    }
    if !resources.is_set() {
        resources.required(errors, "resource rules must supply at least one resource");
    }
}

/// Groups that have only one sensible value.
pub(super) fn default_binding(object: &mut Value) {
    if let Some(role) = fill::object(object, "roleRef") {
        fill::field(role, "apiGroup", GROUP);
    }
    for subject in fill::items(object, "subjects") {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            fill::field(subject, "apiGroup", GROUP);
        }
    }
}

pub(super) fn validate_binding(object: &Value, namespaced: bool, errors: &mut FieldErrors) {
    let root = At::root(object);
    let role = root.field("roleRef");
    need_group(&role.field("apiGroup"), errors, GROUP);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&role.field("kind").text()) {
        role.field("kind").not_supported(errors, kinds);
    }
    role.field("name").need_form(errors, format::path_segment);
    for subject in root.field("subjects").items() {
        validate_subject(&subject, namespaced, errors);
    }
}

/// Whoever may bind one role must not turn that into another.
pub(super) fn validate_binding_update(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let role = At::root(object).field("roleRef");
    if *role.value != old["roleRef"] {
        role.invalid(errors, "cannot change roleRef");
    }
}

fn validate_subject(subject: &At<'_>, namespaced: bool, errors: &mut FieldErrors) {
    let (kind, name, group) = (subject.field("kind"), subject.field("name"), subject.field("apiGroup"));
    name.need(errors);
    match kind.text() {
        "ServiceAccount" => {
            name.has_form(errors, format::subdomain);
            need_group(&group, errors, "");
            if !namespaced {
                subject.field("namespace").need(errors);
            }
        }
        "User" | "Group" => need_group(&group, errors, GROUP),
        _ => kind.not_supported(errors, &["Group", "ServiceAccount", "User"]),
    }
}

fn need_group(field: &At<'_>, errors: &mut FieldErrors, group: &str) {
    if field.text() != group {
        errors.not_supported(field.path.clone(), field.text(), &[group]);
    }
}
