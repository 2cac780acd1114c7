//! Whether two descriptions mean the same.

use serde_json::Value;

/// Equal but for fields that are absent in one and null or empty in the other.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => {
            left.iter().all(|(key, value)| same(value, right.get(key).unwrap_or(&Value::Null)))
                && right.iter().all(|(key, value)| left.contains_key(key) || is_empty(value))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| same(a, b))
        }
        _ => a == b || (is_empty(a) && is_empty(b)),
    }
}

/// Nothing, or a list or map without anything in it.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

/// The fields in which two objects differ.
pub(crate) fn differing<'a>(a: &'a Value, b: &'a Value) -> Vec<&'a str> {
    let keys = |value: &'a Value| value.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let mut fields: Vec<&str> = keys(a).chain(keys(b)).filter(|key| !same(&a[*key], &b[*key])).collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    fn check(a: Value, b: Value, expected: bool) {
        assert_eq!(super::same(&a, &b), expected, "{a} {b}");
        assert_eq!(super::same(&b, &a), expected, "{b} {a}");
    }

    #[test]
    fn absent_is_empty() {
        check(json!({}), json!({"a": null, "b": [], "c": {}, "d": {"e": {}}}), true);
        check(json!({"a": 1}), json!({"a": 1, "b": []}), true);
        check(json!({"a": 1}), json!({}), false);
        check(json!({"a": ""}), json!({}), false);
        check(json!([1, {}]), json!([1, null]), true);
        check(json!([1]), json!([1, null]), false);
    }
}
