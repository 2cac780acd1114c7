//! Writes that change nothing.

use serde_json::{Map, Value};

/// Reverts the times in `new`'s managedFields when nothing but them differs from `old`, so that the two
/// are equal and need not be stored. Call it last, after defaulting and admission: only then is it known
/// whether an apply changed anything. `metadata.resourceVersion` is not compared.
pub fn keep_times(old: &Value, new: &mut Value) {
    let (Some(old_fields), Some(new_fields)) = (super::managed_fields(old), super::managed_fields(new))
    else {
        return;
    };
    if old_fields == new_fields || !equal_but_times(old_fields, new_fields) || !equal_but_managed(old, new) {
        return;
    }
    let kept = old_fields.clone();
    super::set_managed_fields(new, Some(kept));
}

/// Entries may come in another order, since a new time moves an entry.
fn equal_but_times(a: &Value, b: &Value) -> bool {
    let (Value::Array(a), Value::Array(b)) = (a, b) else { return false };
    let same = |a: &Value, b: &Value| match (a, b) {
        (Value::Object(a), Value::Object(b)) => equal_without(a, b, &["time"]),
        _ => a == b,
    };
    a.len() == b.len() && a.iter().all(|entry| b.iter().any(|other| same(entry, other)))
}

fn equal_but_managed(a: &Value, b: &Value) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { return false };
    let metadata = match (a.get("metadata"), b.get("metadata")) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            equal_without(a, b, &["managedFields", "resourceVersion"])
        }
        (a, b) => a == b,
    };
    metadata && equal_without(a, b, &["metadata"])
}

fn equal_without(a: &Map<String, Value>, b: &Map<String, Value>, names: &[&str]) -> bool {
    let one_way = |a: &Map<String, Value>, b: &Map<String, Value>| {
        a.iter().filter(|(name, _)| !names.contains(&name.as_str())).all(|(name, v)| b.get(name) == Some(v))
    };
    one_way(a, b) && one_way(b, a)
}
