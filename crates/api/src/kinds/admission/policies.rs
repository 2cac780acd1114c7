//! What both kinds of admission policies, and both kinds of their bindings, share.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::matching::{default_match, validate_conditions, validate_match};
use crate::kinds::at::At;
use crate::kinds::fill;
use crate::kinds::table::{self, UNSET};
use crate::{Cell, Column, FieldErrors, format, validate_label_selector};

pub(super) fn default_policy(object: &mut Value) {
    if let Some(spec) = fill::object(object, "spec") {
        fill::field(spec, "failurePolicy", "Fail");
        default_match(spec, "matchConstraints");
    }
}

pub(super) fn default_binding(object: &mut Value) {
    if let Some(spec) = fill::object(object, "spec") {
        default_match(spec, "matchResources");
    }
}

pub(super) fn validate_policy(spec: &At<'_>, errors: &mut FieldErrors) {
    spec.field("failurePolicy").one_of(errors, &["Fail", "Ignore"]);
    let kind = spec.field("paramKind");
    if kind.exists() {
        kind.field("apiVersion").need(errors);
        kind.field("kind").need(errors);
    }
    let constraints = spec.field("matchConstraints");
    match constraints.exists() {
        false => constraints.required(errors, ""),
        true => {
            validate_match(&constraints, errors);
            constraints.field("resourceRules").need(errors);
        }
    }
    validate_conditions(&spec.field("matchConditions"), errors);
    for variable in spec.field("variables").items() {
        variable.field("name").need(errors);
        variable.field("expression").need(errors);
    }
}

pub(super) fn validate_binding(spec: &At<'_>, errors: &mut FieldErrors) {
    spec.field("policyName").need_form(errors, format::subdomain);
    validate_match(&spec.field("matchResources"), errors);
    let parameter = spec.field("paramRef");
    if !parameter.exists() {
        return;
    }
    let (name, selector) = (parameter.field("name"), parameter.field("selector"));
    match (name.is_set(), selector.exists()) {
        (true, true) => {
            name.forbidden(errors, "name and selector are mutually exclusive");
        }
        (false, false) => parameter.required(errors, "one of name or selector must be specified"),
        (true, false) => name.problems(errors, format::path_segment(name.text())),
        (false, true) => validate_label_selector(selector.value, &selector.path, errors),
    }
    parameter.field("parameterNotFoundAction").need_one_of(errors, &["Allow", "Deny"]);
}

/// The second column counts what the policy has to say.
pub(super) fn policy_columns(counted: &str) -> Vec<Column> {
    vec![
        Column::new("Name", "string"),
        Column::new(counted, "integer"),
        Column::new("ParamKind", "string"),
        Column::new("Age", "string"),
    ]
}

pub(super) fn policy_row(object: &Value, counted: &str, now: Timestamp) -> Vec<Cell> {
    let spec = &object["spec"];
    let kind = &spec["paramKind"];
    let kind = match kind.is_null() {
        true => UNSET.to_owned(),
        false => format!("{}/{}", table::text_or(&kind["apiVersion"], ""), table::text_or(&kind["kind"], "")),
    };
    vec![table::name(object), json!(table::count(&spec[counted])), kind.into(), table::age(object, now)]
}

pub(super) fn binding_columns() -> Vec<Column> {
    table::texts(&["Name", "PolicyName", "ParamRef", "Age"])
}

pub(super) fn binding_row(object: &Value, now: Timestamp) -> Vec<Cell> {
    let spec = &object["spec"];
    let parameter = &spec["paramRef"];
    let text = |field: &str| table::text_or(&parameter[field], "");
    let reference = match (parameter.is_null(), text("namespace").is_empty()) {
        (true, _) => UNSET.to_owned(),
        (false, true) => table::text_or(&parameter["name"], "*"),
        (false, false) => format!("{}/{}", text("namespace"), table::text_or(&parameter["name"], "*")),
    };
    vec![
        table::name(object),
        table::text_or(&spec["policyName"], "").into(),
        reference.into(),
        table::age(object, now),
    ]
}
