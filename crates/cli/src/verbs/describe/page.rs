//! The page that `describe` fills: lines with tabs, to be aligned at the end.

use minik8s_meta::Quantity;
use serde_json::Value;

use crate::verbs::event_list;

#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// A line as it is, this deep.
    pub fn line(&mut self, level: usize, text: impl AsRef<str>) {
        self.text.push_str(&"  ".repeat(level));
        self.text.push_str(text.as_ref());
        self.text.push('\n');
    }

    /// `Name:\tvalue`.
    pub fn field(&mut self, level: usize, name: &str, value: impl std::fmt::Display) {
        self.line(level, format!("{name}:\t{value}"));
    }

    /// The same if there is a value.
    pub fn maybe(&mut self, level: usize, name: &str, value: &Value) {
        if !value.is_null() && value != "" {
            self.field(level, name, shown(value));
        }
    }

    /// Labels or annotations, a line each, in order.
    pub fn map(&mut self, level: usize, name: &str, map: &Value, separator: &str) {
        let mut pairs: Vec<String> = map
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}{separator}{}", shown(value)))
            .collect();
        pairs.sort();
        if pairs.is_empty() {
            return self.field(level, name, "<none>");
        }
        for (i, pair) in pairs.iter().enumerate() {
            match i {
                0 => self.field(level, name, pair),
                _ => self.line(level, format!("\t{pair}")),
            }
        }
    }

    pub fn labels(&mut self, object: &Value) {
        self.map(0, "Labels", &object["metadata"]["labels"], "=");
    }

    /// Long values begin on a line of their own.
    pub fn annotations(&mut self, object: &Value) {
        let hidden = "kubectl.kubernetes.io/last-applied-configuration";
        let map = object["metadata"]["annotations"].as_object();
        let mut pairs: Vec<(&String, String)> = map
            .into_iter()
            .flatten()
            .filter(|(key, _)| key.as_str() != hidden)
            .map(|(key, value)| (key, shown(value)))
            .collect();
        pairs.sort();
        if pairs.is_empty() {
            return self.field(0, "Annotations", "<none>");
        }
        for (i, (key, value)) in pairs.into_iter().enumerate() {
            let value = value.trim_end_matches('\n');
            let text = if value.len() + key.len() + 2 > 140 || value.contains('\n') {
                let shown: String = value.chars().take(140).collect();
                let dots = if shown.len() < value.len() { "..." } else { "" };
                let lines: Vec<&str> = shown.lines().collect();
                format!("{key}:\n\t  {}{dots}", lines.join("\n\t  "))
            } else {
                format!("{key}: {value}")
            };
            let heading = if i == 0 { "Annotations:" } else { "" };
            self.line(0, format!("{heading}\t{text}"));
        }
    }

    /// Name, namespace, labels and annotations: what every object has.
    pub fn head(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        self.field(0, "Name", shown(&metadata["name"]));
        if metadata["namespace"].is_string() {
            self.field(0, "Namespace", shown(&metadata["namespace"]));
        }
        self.labels(object);
        self.annotations(object);
    }

    /// A table below a heading, with a line under its columns.
    pub fn table(&mut self, level: usize, columns: &[&str], rows: &[Vec<String>]) {
        self.line(level, columns.join("\t"));
        let dashes: Vec<String> = columns.iter().map(|column| "-".repeat(column.len())).collect();
        self.line(level, dashes.join("\t"));
        for row in rows {
            self.line(level, row.join("\t"));
        }
    }

    pub fn events(&mut self, events: &[Value]) {
        if events.is_empty() {
            return self.field(0, "Events", "<none>");
        }
        self.line(0, "Events:");
        self.line(1, "Type\tReason\tAge\tFrom\tMessage");
        self.line(1, "----\t------\t----\t----\t-------");
        for event in events {
            let from = match event["source"]["component"].as_str() {
                Some(component) if !component.is_empty() => component.to_owned(),
                _ => shown(&event["reportingComponent"]),
            };
            let message = shown(&event["message"]);
            let row = [
                shown(&event["type"]),
                shown(&event["reason"]),
                event_list::seen(event),
                from,
                message.trim().to_owned(),
            ];
            self.line(1, row.join("\t"));
        }
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

/// A value as it stands in a line.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => crate::print::columns::go_value(other),
    }
}

/// A quantity in its shortest form, as kubectl writes it: 1000 is 1k.
pub fn amount(value: &Value) -> String {
    Quantity::from_json(value).map_or_else(|_| shown(value), |amount| amount.to_string())
}

/// The items of a list, none if it is none.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
