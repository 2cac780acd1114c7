//! Cells of `kubectl get` that many kinds share.

use jiff::Timestamp;
use serde_json::Value;

use crate::{Cell, Column, column};

pub const NONE: &str = "<none>";
pub const UNSET: &str = "<unset>";
pub const UNKNOWN: &str = "<unknown>";

/// Columns of text.
pub fn texts(names: &[&str]) -> Vec<Column> {
    names.iter().map(|name| Column::new(name, "string")).collect()
}

/// Columns of text, the last of them only with `-o wide`.
pub fn texts_and_wide(shown: &[&str], wide: &[&str]) -> Vec<Column> {
    let wide = wide.iter().map(|name| Column::wide(name, "string"));
    texts(shown).into_iter().chain(wide).collect()
}

pub fn name(object: &Value) -> Cell {
    object["metadata"]["name"].clone()
}

pub fn age(object: &Value, now: Timestamp) -> Cell {
    column::age(object, now)
}

/// How long ago a timestamp was.
pub fn since(timestamp: &Value, now: Timestamp) -> String {
    match timestamp.as_str().and_then(|t| t.parse::<Timestamp>().ok()) {
        Some(then) => crate::human_duration(now.as_second() - then.as_second()),
        None => UNKNOWN.to_owned(),
    }
}

/// A scalar as text, or what stands for its absence.
pub fn text_or(value: &Value, absent: &str) -> String {
    match value {
        Value::Null => absent.to_owned(),
        Value::String(text) if text.is_empty() => absent.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `a,b,c` of a list of texts, or what stands for an empty one.
pub fn joined_or(list: &Value, absent: &str) -> String {
    let texts: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if texts.is_empty() { absent.to_owned() } else { texts.join(",") }
}

/// `k=v,k=v` in order of the keys.
pub fn labels(map: &Value) -> String {
    let mut pairs: Vec<String> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

/// A count as text: the length of a list or map.
pub fn count(value: &Value) -> usize {
    value.as_array().map(Vec::len).or_else(|| value.as_object().map(|map| map.len())).unwrap_or(0)
}

/// A label selector: `a=b,c in (d,e),!f`; `<none>` selects everything.
pub fn selector(selector: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    parts.sort();
    if parts.is_empty() { NONE.to_owned() } else { parts.join(",") }
}

/// The columns of kinds that show when they were made instead of how old they are.
pub fn created_columns() -> Vec<Column> {
    vec![Column::new("Name", "string"), Column::new("Created At", "date")]
}

pub fn created_row(object: &Value) -> Vec<Cell> {
    vec![name(object), object["metadata"]["creationTimestamp"].clone()]
}
