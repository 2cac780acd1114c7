//! Holds custom objects against the validation rules of their schema (`x-kubernetes-validations`).

use minik8s_schema::{FieldErrorKind, FieldErrors, Path};
use serde_json::Value;

use crate::registry::Call;

const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing \
                         errors to complete validation";

/// After the schema has been checked. What is wrong in fields that have not changed is a warning.
pub fn validate_rules(call: &Call, object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let rules = call.served.rules();
    if rules.is_empty() {
        return;
    }
    // Rules count on the types and sizes of the schema: without them they would fail, or cost too much.
    let is_blocking = |kind: FieldErrorKind| {
        use FieldErrorKind::{Required, TooLong, TooMany, TypeInvalid};
        matches!(kind, Required | TooLong | TooMany | TypeInvalid)
    };
    if errors.iter().any(|error| is_blocking(error.kind)) {
        return errors.invalid(Path::new("<nil>"), Value::Null, UNCHECKED);
    }
    let found = rules.validate(object, old);
    for error in found.errors {
        errors.push(error.kind, error.path, error.message);
    }
    found.warnings.iter().for_each(|warning| call.warn(warning.to_string()));
}
