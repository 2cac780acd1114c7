//! Columns of `kubectl get`.

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

/// A duration in at most two units.
pub fn human_duration(seconds: i64) -> String {
    let (minute, hour, day, year) = (60, 3600, 86_400, 31_536_000);
    let two = |big: i64, big_name: char, small: i64, small_name: char| match small {
        0 => format!("{big}{big_name}"),
        _ => format!("{big}{big_name}{small}{small_name}"),
    };
    match seconds {
        i64::MIN..0 => "0s".to_owned(),
        s if s < 2 * minute => format!("{s}s"),
        s if s < 10 * minute => two(s / minute, 'm', s % minute, 's'),
        s if s < 3 * hour => format!("{}m", s / minute),
        s if s < 8 * hour => two(s / hour, 'h', s % hour / minute, 'm'),
        s if s < 2 * day => format!("{}h", s / hour),
        s if s < 8 * day => two(s / day, 'd', s % day / hour, 'h'),
        s if s < 2 * year => format!("{}d", s / day),
        s if s < 8 * year => two(s / year, 'y', s % year / day, 'd'),
        s => format!("{}y", s / year),
    }
}
