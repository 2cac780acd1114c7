//! Numbers: whole ones are compared exactly, all others as floats.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::Rules;

/// Whether the value is a whole number, also when written `1.0`.
pub(super) fn is_integer(value: &Value) -> bool {
    value.as_number().is_some_and(|n| whole(n).is_some() || n.as_f64().is_some_and(|f| f.fract() == 0.0))
}

/// Whether the number is in the range of the format.
pub(super) fn fits(format: &str, number: &Number) -> bool {
    match (format, whole(number)) {
        ("int32", Some(n)) => i32::try_from(n).is_ok(),
        ("int64", Some(n)) => i64::try_from(n).is_ok(),
        ("float", _) => number.as_f64().is_none_or(|f| f.abs() <= f64::from(f32::MAX)),
        _ => true,
    }
}

/// What is wrong with the number, in words that follow the field's name.
pub(super) fn broken_rules(rules: &Rules, number: &Number) -> Vec<String> {
    let mut broken = Vec::new();
    if let Some(bound) = &rules.maximum {
        match (compare(number, &bound.limit), bound.exclusive) {
            (Ordering::Greater | Ordering::Equal, true) => {
                broken.push(format!("should be less than {}", bound.limit));
            }
            (Ordering::Greater, false) => {
                broken.push(format!("should be less than or equal to {}", bound.limit));
            }
            _ => {}
        }
    }
    if let Some(bound) = &rules.minimum {
        match (compare(number, &bound.limit), bound.exclusive) {
            (Ordering::Less | Ordering::Equal, true) => {
                broken.push(format!("should be greater than {}", bound.limit));
            }
            (Ordering::Less, false) => {
                broken.push(format!("should be greater than or equal to {}", bound.limit));
            }
            _ => {}
        }
    }
    if let Some(step) = rules.multiple_of.as_ref().filter(|step| !is_multiple(number, step)) {
        broken.push(format!("should be a multiple of {step}"));
    }
    broken
}

fn compare(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
    }
}

fn is_multiple(number: &Number, step: &Number) -> bool {
    match (whole(number), whole(step)) {
        (Some(_), Some(0)) => true,
        (Some(number), Some(step)) => number % step == 0,
        _ => {
            let ratio = number.as_f64().unwrap_or(0.0) / step.as_f64().unwrap_or(1.0);
            (ratio - ratio.round()).abs() < 1e-9 * ratio.abs().max(1.0)
        }
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}
