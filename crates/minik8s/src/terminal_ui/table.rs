//! Lists as the server's tables, and which of their rows a filter leaves. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use minik8s_meta::human_duration;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// Shown only where there is room.
    pub is_wide: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub created: Option<Timestamp>,
    pub cells: Vec<String>,
}

/// A kind as discovery tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub kind: String,
    pub short_names: Vec<String>,
    pub namespaced: bool,
}

impl Kind {
    pub fn pods() -> Kind {
        Kind {
            group: String::new(),
            version: "v1".to_owned(),
            plural: "pods".to_owned(),
            kind: "Pod".to_owned(),
            short_names: vec!["po".to_owned()],
            namespaced: true,
        }
    }

    /// `pods`, `deployments.apps`: what kubectl takes too.
    pub fn id(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    pub fn path(&self, namespace: &str) -> String {
        let base = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace {
            namespace if self.namespaced && !namespace.is_empty() => {
                format!("{base}/namespaces/{namespace}/{}", self.plural)
            }
            _ => format!("{base}/{}", self.plural),
        }
    }

    /// Whether somebody who types this means it.
    pub fn is_called(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.plural == name
            || self.kind.to_lowercase() == name
            || self.short_names.contains(&name)
            || self.id() == name
    }
}

/// The kinds that can be listed, of an aggregated discovery; the first version of each is the preferred one.
pub fn kinds(discovery: &Value) -> Vec<Kind> {
    let mut found: Vec<Kind> = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<String>>();
    for group in discovery["items"].as_array().into_iter().flatten() {
        for version in group["versions"].as_array().into_iter().flatten() {
            for resource in version["resources"].as_array().into_iter().flatten() {
                let kind = Kind {
                    group: text(&group["metadata"]["name"]),
                    version: text(&version["version"]),
                    plural: text(&resource["resource"]),
                    kind: text(&resource["responseKind"]["kind"]),
                    short_names: texts(&resource["shortNames"]),
                    namespaced: resource["scope"] == "Namespaced",
                };
                let is_known = found.iter().any(|known| known.id() == kind.id());
                if !is_known && texts(&resource["verbs"]).iter().any(|verb| verb == "list") {
                    found.push(kind);
                }
            }
        }
    }
    found
}

pub fn columns(table: &Value) -> Option<Vec<Column>> {
    let all = table["columnDefinitions"].as_array()?;
    let column = |one: &Value| Column {
        name: one["name"].as_str().unwrap_or_default().to_owned(),
        is_wide: one["priority"].as_i64().unwrap_or(0) > 0,
    };
    Some(all.iter().map(column).collect())
}

pub fn rows(table: &Value) -> Vec<Row> {
    table["rows"].as_array().into_iter().flatten().map(row).collect()
}

fn row(row: &Value) -> Row {
    let metadata = &row["object"]["metadata"];
    let text = |field: &str| plain(metadata[field].as_str().unwrap_or_default());
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let cell = |cell: &Value| match cell {
        Value::String(text) => plain(text),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    Row {
        uid: text("uid"),
        namespace: text("namespace"),
        name: text("name"),
        labels: labels.map(|(key, value)| (key.clone(), cell(value))).collect(),
        created: metadata["creationTimestamp"].as_str().and_then(|at| at.parse().ok()),
        cells: row["cells"].as_array().into_iter().flatten().map(cell).collect(),
    }
}

/// Without what a terminal would obey: colours, cursors, titles. What pods write is shown, never done.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut rest),
            '\t' => out.push_str("    "),
            other if other.is_control() => {}
            other => out.push(other),
        }
    }
    out
}

fn skip_sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        Some('[') => while rest.next().is_some_and(|next| !('\u{40}'..='\u{7e}').contains(&next)) {},
        Some(']') => while rest.next().is_some_and(|next| next != '\u{7}' && next != '\u{1b}') {},
        _ => {}
    }
}

/// The cell as it is now: ages grow.
pub fn cell(columns: &[Column], row: &Row, at: usize, now: Timestamp) -> String {
    let is_age = columns.get(at).is_some_and(|column| column.name == "Age");
    match row.created.filter(|_| is_age) {
        Some(created) => human_duration(now.as_second() - created.as_second()),
        None => row.cells.get(at).cloned().unwrap_or_default(),
    }
}

/// Every word must hold: text anywhere, `column:text`, `label=value`, and `!` before it for the opposite.
pub fn matches(columns: &[Column], row: &Row, filter: &str) -> bool {
    filter.split_whitespace().all(|word| match word.strip_prefix('!') {
        Some(word) if !word.is_empty() => !holds(columns, row, word),
        _ => holds(columns, row, word),
    })
}

fn holds(columns: &[Column], row: &Row, word: &str) -> bool {
    let has = |text: &str, part: &str| text.to_lowercase().contains(&part.to_lowercase());
    if let Some((key, value)) = word.split_once('=') {
        return row.labels.get(key).is_some_and(|found| value.is_empty() || found == value);
    }
    if let Some((name, part)) = word.split_once(':')
        && let Some(at) = columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    {
        return row.cells.get(at).is_some_and(|cell| has(cell, part));
    }
    has(&row.namespace, word) || has(&row.name, word) || row.cells.iter().any(|cell| has(cell, word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn example() -> (Vec<Column>, Row) {
        let table = json!({
            "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Status", "priority": 0}, {"name": "IP", "priority": 1}],
            "rows": [{"cells": ["web-1", "CrashLoopBackOff", "10.0.0.1"], "object": {"metadata": {
                "name": "web-1", "namespace": "shop", "uid": "u", "labels": {"app": "web"}}}}],
        });
        (columns(&table).unwrap(), rows(&table).remove(0))
    }

    #[test]
    fn filters() {
        let (columns, row) = example();
        for (filter, expected) in [
            ("", true),
            ("WEB", true),
            ("shop", true),
            ("status:crash", true),
            ("status:running", false),
            ("!status:running web", true),
            ("app=web", true),
            ("app=", true),
            ("app=db", false),
            ("!app=web", false),
            ("nowhere", false),
        ] {
            assert_eq!(matches(&columns, &row, filter), expected, "{filter}");
        }
    }

    #[test]
    fn what_pods_write_is_not_obeyed() {
        assert_eq!(plain("\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}x\rb\u{8}\ta"), "red xb    a");
        assert_eq!(plain("\u{1b}"), "");
        assert_eq!(plain("中文 ✓"), "中文 ✓");
    }

    #[test]
    fn kinds_by_their_names() {
        let discovery = json!({"items": [{"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [
            {"resource": "deployments", "responseKind": {"kind": "Deployment"}, "scope": "Namespaced",
             "shortNames": ["deploy"], "verbs": ["get", "list"]},
            {"resource": "reviews", "responseKind": {"kind": "Review"}, "verbs": ["create"]}]}]}]});
        let found = kinds(&discovery);
        assert_eq!(found.len(), 1);
        for name in ["deploy", "Deployment", "deployments", "deployments.apps"] {
            assert!(found[0].is_called(name), "{name}");
        }
        assert_eq!(found[0].path("ns"), "/apis/apps/v1/namespaces/ns/deployments");
        assert_eq!(Kind::pods().path(""), "/api/v1/pods");
    }
}
