//! Columns of `kubectl get`.

use minik8s_meta::human_duration;
use serde_json::Value;

/// One column's heading. The cells come from [`crate::Strategy::row`], in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub ty: String,
    pub format: String,
    pub description: String,
    /// 0 is always shown, above only with `-o wide`.
    pub priority: i32,
}

impl Column {
    pub fn new(name: &str, ty: &str) -> Self {
        Column {
            name: name.to_owned(),
            ty: ty.to_owned(),
            format: if name == "Name" { "name".to_owned() } else { String::new() },
            description: String::new(),
            priority: 0,
        }
    }

    /// Shown only with `-o wide`.
    pub fn wide(name: &str, ty: &str) -> Self {
        Column { priority: 1, ..Column::new(name, ty) }
    }
}

/// A table cell: a JSON scalar.
pub type Cell = Value;

/// The Age cell: `5m`, `3d12h`, as kubectl users know it.
pub fn age(object: &Value, now: jiff::Timestamp) -> Cell {
    let created =
        object["metadata"]["creationTimestamp"].as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok());
    match created {
        Some(created) => human_duration(now.as_second() - created.as_second()).into(),
        None => "<unknown>".into(),
    }
}
