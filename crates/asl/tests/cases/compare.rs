//! Comparing what is with what was recorded.

use serde_json::Value;

/// Placeholders of the recorder that are not written `<any>`.
const PLACEHOLDERS: &[&str] =
    &["<any>", "RandomNumberGenerated", "map_run_arn", "execution-arn", "state-machine-arn"];

/// Texts that are JSON objects are decoded on both sides, as the recorder did.
pub fn same(expected: &Value, found: &Value) -> bool {
    if expected.as_str().is_some_and(|text| PLACEHOLDERS.contains(&text)) {
        return true;
    }
    let (expected, found) = (decoded(expected), decoded(found));
    match (&expected, &found) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => minik8s_asl::values::equal(a, b),
    }
}

fn decoded(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with('{') => {
            serde_json::from_str(text).unwrap_or_else(|_| value.clone())
        }
        value => value.clone(),
    }
}
