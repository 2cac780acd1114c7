//! Topology spread constraints.

use std::collections::HashSet;

use crate::At;
use crate::{FieldErrors, format, validate_label_selector};

pub(super) fn validate(constraints: &At<'_>, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for constraint in constraints.items() {
        one(&constraint, errors);
        let key = constraint.field("topologyKey").text();
        let action = constraint.field("whenUnsatisfiable").text();
        if !seen.insert((key, action)) {
            let path = constraint.path.field("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(path, format!("{{{key}, {action}}}"));
        }
    }
}

fn one(constraint: &At<'_>, errors: &mut FieldErrors) {
    for field in ["maxSkew", "minDomains"] {
        let number = constraint.field(field);
        let wrong = match number.int() {
            Some(n) => n <= 0,
            None => field == "maxSkew",
        };
        if wrong {
            number.invalid(errors, "must be greater than zero");
        }
    }
    let key = constraint.field("topologyKey");
    match key.is_set() {
        true => key.has_form(errors, format::qualified_name),
        false => key.required(errors, "can not be empty"),
    }
    let action = constraint.field("whenUnsatisfiable");
    if !matches!(action.text(), "DoNotSchedule" | "ScheduleAnyway") {
        action.not_supported(errors, &["DoNotSchedule", "ScheduleAnyway"]);
    }
    let domains = constraint.field("minDomains");
    if domains.exists() && action.text() != "DoNotSchedule" {
        domains.invalid(
            errors,
            format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", action.text()),
        );
    }
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        constraint.field(field).one_of(errors, &["Honor", "Ignore"]);
    }
    let selector = constraint.field("labelSelector");
    validate_label_selector(selector.value, &selector.path, errors);
    let keys = constraint.field("matchLabelKeys");
    if keys.is_set() && !selector.exists() {
        keys.forbidden(errors, "must not be specified when labelSelector is not set");
    }
    for key in keys.items() {
        key.problems(errors, format::qualified_name(key.text()));
    }
}
