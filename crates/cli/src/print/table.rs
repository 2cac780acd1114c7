//! Tables as the server makes them (`meta.k8s.io` `Table`), printed as kubectl does.

use serde_json::{Value, json};

use super::{tabs, time};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Column {
    pub name: String,
    /// Above 0: only in wide tables.
    pub priority: i64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    pub cells: Vec<String>,
    /// At least its metadata.
    pub object: Value,
}

/// What of the table is shown.
#[derive(Debug, Clone, Default)]
pub struct Style {
    pub wide: bool,
    pub no_headers: bool,
    pub show_labels: bool,
    /// Labels that get a column each.
    pub label_columns: Vec<String>,
    pub namespace: bool,
    /// Put before each name: `pod/`.
    pub kind: Option<String>,
}

impl Table {
    /// From the server's answer. One that knows no tables gives names and ages.
    pub fn new(answer: &Value) -> Table {
        if answer["kind"] != "Table" {
            let columns = ["Name", "Age"].map(|name| Column { name: name.to_owned(), priority: 0 });
            let rows = super::members(answer).iter().map(|object| {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let age = time::age_of(&object["metadata"]["creationTimestamp"]);
                Row { cells: vec![name, age], object: object.clone() }
            });
            return Table { columns: columns.into(), rows: rows.collect() };
        }
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let column = |value: &Value| Column {
            name: value["name"].as_str().unwrap_or_default().to_owned(),
            priority: value["priority"].as_i64().unwrap_or(0),
        };
        let row = |value: &Value| Row {
            cells: list(&value["cells"]).iter().map(cell).collect(),
            object: value["object"].clone(),
        };
        Table {
            columns: list(&answer["columnDefinitions"]).iter().map(column).collect(),
            rows: list(&answer["rows"]).iter().map(row).collect(),
        }
    }

    /// Cells with tabs between them, for [`tabs::align`].
    pub fn lines(&self, style: &Style) -> String {
        let mut text = String::new();
        if !style.no_headers && !self.columns.is_empty() {
            text.push_str(&self.header(style));
        }
        for row in &self.rows {
            text.push_str(&self.row(row, style));
        }
        tabs::escaped(&text).into_owned()
    }

    pub fn render(&self, style: &Style) -> String {
        tabs::align(&self.lines(style), tabs::TABLE)
    }

    fn shown(&self, style: &Style) -> impl Iterator<Item = (usize, &Column)> {
        let wide = style.wide;
        self.columns.iter().enumerate().filter(move |(_, column)| column.priority == 0 || wide)
    }

    fn header(&self, style: &Style) -> String {
        let mut cells: Vec<String> = Vec::new();
        if style.namespace {
            cells.push("NAMESPACE".to_owned());
        }
        cells.extend(self.shown(style).map(|(_, column)| column.name.to_uppercase()));
        for label in &style.label_columns {
            cells.push(label.rsplit('/').next().unwrap_or_default().to_uppercase());
        }
        if style.show_labels {
            cells.push("LABELS".to_owned());
        }
        cells.join("\t") + "\n"
    }

    fn row(&self, row: &Row, style: &Style) -> String {
        let mut cells: Vec<String> = Vec::new();
        let metadata = &row.object["metadata"];
        if style.namespace {
            cells.push(metadata["namespace"].as_str().unwrap_or_default().to_owned());
        }
        for (i, _) in self.shown(style) {
            let cell = row.cells.get(i).cloned().unwrap_or_default();
            cells.push(match &style.kind {
                Some(kind) if i == 0 => format!("{kind}/{cell}"),
                _ => cell,
            });
        }
        for label in &style.label_columns {
            cells.push(metadata["labels"][label].as_str().unwrap_or_default().to_owned());
        }
        if style.show_labels {
            cells.push(labels(&metadata["labels"]));
        }
        cells.join("\t") + "\n"
    }
}

/// `a=b,c=d` in order, or `<none>`.
pub fn labels(labels: &Value) -> String {
    let mut pairs: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => match text.find(['\n', '\r', '\u{c}']) {
            Some(end) => format!("{}...", &text[..end]),
            None => text.replace('\t', "\\t"),
        },
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

/// A table made here, for commands whose columns are not the server's.
pub fn plain(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let columns = columns.iter().map(|name| Column { name: (*name).to_owned(), priority: 0 }).collect();
    let rows = rows.into_iter().map(|cells| Row { cells, object: json!({}) }).collect();
    Table { columns, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::new(&json!({
            "kind": "Table",
            "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Ready", "priority": 0}, {"name": "Node", "priority": 1}],
            "rows": [
                {"cells": ["a", true, "n1"], "object": {"metadata": {"name": "a", "namespace": "x", "labels": {"b": "2", "a/c": "1"}}}},
                {"cells": ["long-name", 3, null], "object": {"metadata": {"name": "long-name", "namespace": "default"}}},
            ],
        }))
    }

    #[test]
    fn styles() {
        let check = |style: Style, expected: &str| assert_eq!(table().render(&style), expected);
        check(Style::default(), "NAME        READY\na           true\nlong-name   3\n");
        check(
            Style { wide: true, namespace: true, ..Style::default() },
            "NAMESPACE   NAME        READY   NODE\nx           a           true    n1\ndefault     long-name   3       <nil>\n",
        );
        check(
            Style { no_headers: true, kind: Some("pod".into()), ..Style::default() },
            "pod/a           true\npod/long-name   3\n",
        );
        check(
            Style { show_labels: true, label_columns: vec!["a/c".into()], ..Style::default() },
            "NAME        READY   C     LABELS\na           true    1     a/c=1,b=2\nlong-name   3             <none>\n",
        );
    }

    #[test]
    fn servers_without_tables() {
        let answer = json!({"kind": "PodList", "items": [{"metadata": {"name": "a"}}]});
        assert_eq!(Table::new(&answer).render(&Style::default()), "NAME   AGE\na      <unknown>\n");
    }
}
