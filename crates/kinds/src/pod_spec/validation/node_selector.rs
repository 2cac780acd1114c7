//! Terms that select nodes.

use crate::At;
use crate::{FieldErrors, format};

pub(super) fn term(term: &At<'_>, errors: &mut FieldErrors) {
    for expression in term.field("matchExpressions").items() {
        by_label(&expression, errors);
    }
    for expression in term.field("matchFields").items() {
        by_field(&expression, errors);
    }
}

fn by_label(expression: &At<'_>, errors: &mut FieldErrors) {
    let (operator, values) = (expression.field("operator"), expression.field("values"));
    match operator.text() {
        "In" | "NotIn" if !values.is_set() => {
            values.required(errors, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if values.is_set() => {
            values.forbidden(errors, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            values.required(errors, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => operator.invalid(errors, "not a valid selector operator"),
    }
    expression.field("key").problems(errors, format::qualified_name(expression.field("key").text()));
}

fn by_field(expression: &At<'_>, errors: &mut FieldErrors) {
    let (operator, values) = (expression.field("operator"), expression.field("values"));
    match operator.text() {
        "In" | "NotIn" if values.len() != 1 => values.required(
            errors,
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ),
        "In" | "NotIn" => {}
        _ => operator.invalid(errors, "not a valid selector operator"),
    }
    if expression.field("key").text() != "metadata.name" {
        expression.field("key").invalid(errors, "not a valid field selector key");
    }
}
