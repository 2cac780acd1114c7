//! Tolerations of taints.

use crate::At;
use crate::{FieldErrors, format};

pub(super) fn validate(tolerations: &At<'_>, errors: &mut FieldErrors) {
    for toleration in tolerations.items() {
        one(&toleration, errors);
    }
}

fn one(toleration: &At<'_>, errors: &mut FieldErrors) {
    let (key, operator) = (toleration.field("key"), toleration.field("operator"));
    let (value, effect) = (toleration.field("value"), toleration.field("effect"));
    key.has_form(errors, format::qualified_name);
    if !key.is_set() && operator.text() != "Exists" {
        operator.invalid(
            errors,
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    if toleration.field("tolerationSeconds").exists() && effect.text() != "NoExecute" {
        effect.invalid(errors, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator.text() {
        "" | "Equal" => {
            for problem in format::label_value(value.text()) {
                errors.invalid(operator.path.clone(), value.text(), problem);
            }
        }
        "Exists" if value.is_set() => {
            errors.invalid(
                operator.path.clone(),
                value.text(),
                "value must be empty when `operator` is 'Exists'",
            );
        }
        "Exists" => {}
        "Lt" | "Gt" if value.text().parse::<i64>().is_err() => {
            value.invalid(errors, "value must be a valid integer when `operator` is 'Lt' or 'Gt'");
        }
        "Lt" | "Gt" => {}
        _ => operator.not_supported(errors, &["Equal", "Exists"]),
    }
    effect.one_of(errors, &["NoExecute", "NoSchedule", "PreferNoSchedule"]);
}
