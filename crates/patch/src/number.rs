//! JSON equality as users mean it: `1` and `1.0` are the same number.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Whether two values mean the same.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Compares numerically; integers exactly, whatever their signedness.
pub(crate) fn compare(a: &Number, b: &Number) -> Ordering {
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        return a.cmp(&b);
    }
    let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
    // Negative zero is zero; everything else about `total_cmp` is what a sort needs.
    (a + 0.0).total_cmp(&(b + 0.0))
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_compared_by_value() {
        assert!(same(&json!(1), &json!(1.0)));
        assert!(same(&json!(0.0), &json!(-0.0)));
        assert!(same(&json!({"a": [1, 2.0]}), &json!({"a": [1.0, 2]})));
        assert!(!same(&json!(u64::MAX), &json!(-1)));
        assert!(!same(&json!(1), &json!("1")));
        assert!(!same(&json!({"a": null}), &json!({})));
    }
}
