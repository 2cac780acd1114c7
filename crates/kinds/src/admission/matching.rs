//! Which requests webhooks and policies see.

use std::collections::HashSet;

use minik8s_cel::{Environment, admission};
use serde_json::{Value, json};

use crate::At;
use crate::fill;
use crate::{FieldErrors, format, validate_label_selector};

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MAX_CONDITIONS: usize = 64;

/// Rules apply to namespaced and cluster-wide objects unless they say otherwise.
pub(super) fn default_scopes(value: &mut Value, rules: &str) {
    for rule in fill::items(value, rules) {
        fill::field(rule, "scope", "*");
    }
}

/// `matchConstraints` or `matchResources` of a policy or binding.
pub(super) fn default_match(value: &mut Value, field: &str) {
    if let Some(matching) = value.get_mut(field).filter(|matching| matching.is_object()) {
        fill::field(matching, "matchPolicy", "Equivalent");
        fill::field(matching, "namespaceSelector", json!({}));
        fill::field(matching, "objectSelector", json!({}));
        default_scopes(matching, "resourceRules");
        default_scopes(matching, "excludeResourceRules");
    }
}

pub(super) fn validate_match(matching: &At<'_>, errors: &mut FieldErrors) {
    if !matching.exists() {
        return;
    }
    matching.field("matchPolicy").one_of(errors, &["Equivalent", "Exact"]);
    for selector in ["namespaceSelector", "objectSelector"].map(|name| matching.field(name)) {
        validate_label_selector(selector.value, &selector.path, errors);
    }
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in matching.field(rules).items() {
            validate_rule(&rule, errors);
        }
    }
}

pub(super) fn validate_rule(rule: &At<'_>, errors: &mut FieldErrors) {
    for field in ["operations", "apiGroups", "apiVersions", "resources"].map(|name| rule.field(name)) {
        field.need(errors);
        let all = field.items().any(|item| item.text() == "*");
        if all && field.len() > 1 && field.path.as_str().ends_with("operations") {
            field.invalid(errors, "if '*' is present, must not specify other operations");
        } else if all && field.len() > 1 && !field.path.as_str().ends_with("resources") {
            field.invalid(errors, "if '*' is present, must not specify other API groups or versions");
        }
    }
    for operation in rule.field("operations").items() {
        operation.one_of(errors, OPERATIONS);
    }
    for resource in rule.field("resources").items() {
        if resource.text().is_empty() {
            resource.required(errors, "");
        }
    }
    rule.field("scope").one_of(errors, &["*", "Cluster", "Namespaced"]);
}

/// Conditions must compile where these variables are declared.
pub(super) fn validate_conditions(conditions: &At<'_>, variables: &Environment, errors: &mut FieldErrors) {
    if conditions.len() > MAX_CONDITIONS {
        errors.too_many(conditions.path.clone(), conditions.len(), MAX_CONDITIONS);
        return;
    }
    let mut names = HashSet::new();
    for condition in conditions.items() {
        let name = condition.field("name");
        name.need_form(errors, format::qualified_name);
        if !names.insert(name.text()) {
            name.duplicate(errors);
        }
        let expression = condition.field("expression");
        if expression.text().trim().is_empty() {
            expression.need(errors);
        } else if let Err(why) = admission::condition(variables, expression.text()) {
            expression.invalid(errors, &why);
        }
    }
}
