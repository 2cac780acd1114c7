//! Writes that change nothing.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::Tracked;
use super::update::parsed;

/// The managedFields of an object that an apply made of `old`, which had `stored`: those where nothing but times
/// differs, so that the two are equal and need not be stored. Call it last, after defaulting and admission: only
/// then is it known whether an apply changed anything. `metadata.resourceVersion` is not compared.
pub fn keep_times(
    (old, stored): (&Value, Option<&RawValue>),
    (new, applied): (&Value, Option<Value>),
) -> Tracked {
    let same = match (&stored.and_then(parsed), &applied) {
        (Some(stored), Some(applied)) => {
            stored == applied || (equal_but_times(stored, applied) && equal_but_managed(old, new))
        }
        (stored, applied) => stored == applied,
    };
    match same {
        true => Tracked::Unchanged,
        false => Tracked::Changed(applied.and_then(|applied| to_raw_value(&applied).ok())),
    }
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
