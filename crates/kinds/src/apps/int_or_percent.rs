//! Amounts of pods: a number, or a percentage of the replicas.

use serde_json::Value;

use crate::At;
use crate::FieldErrors;

/// Must be 0 or more, or a percentage. Says whether it is one of them.
pub(super) fn validate(amount: &At<'_>, errors: &mut FieldErrors) -> bool {
    match amount.value {
        Value::Null => true,
        Value::String(text) if percentage(text).is_some() => true,
        Value::String(_) => {
            amount.invalid(
                errors,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                 '93%', regex used for validation is '[0-9]+%')",
            );
            false
        }
        number if number.as_i64().is_some_and(|n| n >= 0) => true,
        _ => {
            amount.invalid(errors, "must be greater than or equal to 0");
            false
        }
    }
}

/// More than all pods makes no sense.
pub(super) fn validate_at_most_all(amount: &At<'_>, errors: &mut FieldErrors) {
    if amount.value.as_str().and_then(percentage).is_some_and(|percent| percent > 100) {
        amount.invalid(errors, "must not be greater than 100%");
    }
}

/// `0`, `0%` or nothing at all.
pub(super) fn is_zero(amount: &At<'_>) -> bool {
    match amount.value {
        Value::String(text) => percentage(text) == Some(0),
        number => number.as_i64().unwrap_or(0) == 0,
    }
}

/// Percentages beyond any sense count as the largest number.
fn percentage(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%')?;
    let numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    numeric.then(|| digits.parse().unwrap_or(u64::MAX))
}
