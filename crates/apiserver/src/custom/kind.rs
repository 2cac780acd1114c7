//! How a custom kind looks in `kubectl get`, and by which fields it can be selected.

use jiff::Timestamp;
use minik8s_api::{Cell, Column, JsonPath, Strategy, human_duration};
use serde_json::Value;

/// The printer columns and selectable fields of one version.
pub struct CustomKind {
    columns: Vec<(Column, JsonPath)>,
    /// By the name in field selectors: `spec.color`.
    fields: Vec<(String, JsonPath)>,
}

impl CustomKind {
    pub fn new(version: &Value) -> Self {
        let declared = version["additionalPrinterColumns"].as_array().into_iter().flatten();
        let columns = declared.filter_map(column).collect();
        let declared = version["selectableFields"].as_array().into_iter().flatten();
        let fields = declared.filter_map(selectable_field).collect();
        CustomKind { columns, fields }
    }
}

/// A path that does not parse was refused when the definition was written; an older one is left out.
fn column(declared: &Value) -> Option<(Column, JsonPath)> {
    let text = |field: &str| declared[field].as_str().unwrap_or_default().to_owned();
    let column = Column {
        name: text("name"),
        ty: text("type"),
        format: text("format"),
        description: text("description"),
        priority: declared["priority"].as_i64().and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
    };
    Some((column, JsonPath::parse(declared["jsonPath"].as_str()?).ok()?))
}

fn selectable_field(declared: &Value) -> Option<(String, JsonPath)> {
    let path = declared["jsonPath"].as_str()?;
    Some((path.trim_start_matches('.').to_owned(), JsonPath::parse(path).ok()?))
}

impl Strategy for CustomKind {
    fn selectable(&self, object: &Value) -> Vec<(&str, String)> {
        let value = |path: &JsonPath| path.first(object).map(plain).unwrap_or_default();
        self.fields.iter().map(|(name, path)| (name.as_str(), value(path))).collect()
    }

    fn is_selectable(&self, field: &str) -> bool {
        self.fields.iter().any(|(name, _)| name == field)
    }

    fn columns(&self) -> Option<Vec<Column>> {
        if self.columns.is_empty() {
            return None;
        }
        let declared = self.columns.iter().map(|(column, _)| column.clone());
        Some(std::iter::once(Column::new("Name", "string")).chain(declared).collect())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let cells = self.columns.iter().map(|(column, path)| cell(column, path, object, now));
        std::iter::once(object["metadata"]["name"].clone()).chain(cells).collect()
    }
}

fn cell(column: &Column, path: &JsonPath, object: &Value, now: Timestamp) -> Cell {
    let found = path.find(object);
    let Some(first) = found.first() else { return Value::Null };
    match (column.ty.as_str(), first) {
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(time) => human_duration(now.as_second() - time.as_second()).into(),
            Err(_) => "<invalid>".into(),
        },
        ("integer" | "number" | "boolean", value) => (*value).clone(),
        _ if found.len() > 1 => {
            let texts: Vec<String> = found.iter().map(|value| plain(value)).collect();
            texts.join(",").into()
        }
        (_, value) => plain(value).into(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
