//! What both kinds of admission policies, and both kinds of their bindings, share.

use jiff::Timestamp;
use minik8s_cel::policy::{Expected, Scope, Variables};
use serde_json::{Value, json};

use super::matching::{default_match, validate_conditions, validate_match};
use crate::At;
use crate::fill;
use crate::table::{self, UNSET};
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

/// The expressions of one policy: what they may name, and the variables that it has declared so far.
pub(super) struct Expressions {
    params: bool,
    mutation: bool,
    variables: Variables,
}

impl Expressions {
    /// Reports an expression that is missing or does not compile; `authorizer`: it may ask about rights.
    pub(super) fn validate(
        &self,
        expression: &At<'_>,
        expected: Expected,
        authorizer: bool,
        errors: &mut FieldErrors,
    ) {
        if expression.text().trim().is_empty() {
            expression.required(errors, &format!("{} is not specified", last_field(expression)));
            return;
        }
        let scope = Scope { params: self.params, authorizer, mutation: self.mutation };
        let environment = self.variables.declare(scope.environment());
        if let Err(why) = expected.compile(&environment, expression.text()) {
            expression.invalid(errors, why);
        }
    }

    fn add_variable(&mut self, variable: &At<'_>, errors: &mut FieldErrors) {
        let (name, expression) = (variable.field("name"), variable.field("expression"));
        if name.text().trim().is_empty() {
            name.required(errors, "name is not specified");
        } else if !minik8s_cel::is_identifier(name.text()) {
            name.invalid(errors, "must be a valid CEL identifier");
        }
        if expression.text().trim().is_empty() {
            expression.required(errors, "expression is not specified");
            return;
        }
        let scope = Scope { params: self.params, authorizer: true, mutation: false };
        if let Err(why) = self.variables.add(&scope.environment(), name.text(), expression.text()) {
            expression.invalid(errors, why);
        }
    }
}

fn last_field<'a>(at: &'a At<'_>) -> &'a str {
    at.path.as_str().rsplit('.').next().unwrap_or_default()
}

/// Everything that both kinds of policies have; gives what their own expressions may name.
pub(super) fn validate_policy(spec: &At<'_>, mutation: bool, errors: &mut FieldErrors) -> Expressions {
    spec.field("failurePolicy").one_of(errors, &["Fail", "Ignore"]);
    let kind = spec.field("paramKind");
    if kind.exists() {
        validate_parameter_kind(&kind, errors);
    }
    let constraints = spec.field("matchConstraints");
    match constraints.exists() {
        false => constraints.required(errors, ""),
        true => {
            validate_match(&constraints, errors);
            constraints.field("resourceRules").need(errors);
        }
    }
    let params = kind.exists();
    let conditions = Scope { params, authorizer: true, mutation: false };
    validate_conditions(&spec.field("matchConditions"), &conditions.environment(), errors);
    let mut expressions = Expressions { params, mutation, variables: Variables::default() };
    for variable in spec.field("variables").items() {
        expressions.add_variable(&variable, errors);
    }
    expressions
}

fn validate_parameter_kind(kind: &At<'_>, errors: &mut FieldErrors) {
    let (api_version, name) = (kind.field("apiVersion"), kind.field("kind"));
    if api_version.need(errors) {
        match api_version.text().split('/').collect::<Vec<_>>().as_slice() {
            [version] => api_version.problems(errors, format::label_1035(version)),
            [group, version] => {
                api_version.problems(errors, format::subdomain(group));
                api_version.problems(errors, format::label_1035(version));
            }
            _ => {
                api_version.invalid(errors, format!("unexpected GroupVersion string: {}", api_version.text()))
            }
        }
    }
    if name.need(errors) {
        for problem in format::label_1035(&name.text().to_lowercase()) {
            name.invalid(errors, format!("may have mixed case, but should otherwise match: {problem}"));
        }
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
            selector.forbidden(errors, "name and selector are mutually exclusive");
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
