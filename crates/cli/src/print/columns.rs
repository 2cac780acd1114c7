//! `-o custom-columns=NAME:.path,...`.

use serde_json::Value;

use super::jsonpath::Path;
use super::tabs;
use crate::error::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    columns: Vec<(String, Path)>,
}

impl Columns {
    pub fn parse(spec: &str) -> Result<Columns> {
        let column = |part: &str| {
            let (name, path) = part
                .split_once(':')
                .filter(|(name, path)| !name.is_empty() && !path.is_empty())
                .ok_or_else(|| {
                    Error::plain(format!(
                        "unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>"
                    ))
                })?;
            Ok((name.to_owned(), parse_path(path)?))
        };
        Ok(Columns { columns: split(spec).into_iter().map(column).collect::<Result<_>>()? })
    }

    /// Headers on the first line, paths on the second.
    pub fn parse_file(text: &str) -> Result<Columns> {
        let mut lines = text.lines();
        let (headers, paths) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let (headers, paths): (Vec<&str>, Vec<&str>) =
            (headers.split_whitespace().collect(), paths.split_whitespace().collect());
        if headers.is_empty() || headers.len() != paths.len() {
            return Err(Error::plain(format!(
                "number of headers ({}) and field specifications ({}) don't match",
                headers.len(),
                paths.len()
            )));
        }
        let column = |(header, path): (&&str, &&str)| Ok(((*header).to_owned(), parse_path(path)?));
        Ok(Columns { columns: headers.iter().zip(&paths).map(column).collect::<Result<_>>()? })
    }

    pub fn render(&self, objects: &[Value], with_headers: bool) -> Result<String> {
        let mut text = String::new();
        if with_headers {
            let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
            text.push_str(&(names.join("\t") + "\n"));
        }
        for object in objects {
            let mut cells = Vec::new();
            for (_, path) in &self.columns {
                let found = path.find(object).map_err(Error::Plain)?;
                let shown: Vec<String> = found.into_iter().map(go_value).collect();
                cells.push(if shown.is_empty() { "<none>".to_owned() } else { shown.join(",") });
            }
            text.push_str(&(cells.join("\t") + "\n"));
        }
        Ok(tabs::align(&text, tabs::TABLE))
    }
}

fn parse_path(text: &str) -> Result<Path> {
    Path::parse_relaxed(text).map_err(|error| Error::plain(format!("error parsing column {text}: {error}")))
}

/// Commas in brackets belong to a path.
fn split(spec: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (i, c) in spec.char_indices() {
        match c {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&spec[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&spec[start..]);
    parts
}

/// A value as Go prints it.
pub fn go_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let pairs: Vec<String> =
                keys.into_iter().map(|key| format!("{key}:{}", go_value(&map[key]))).collect();
            format!("map[{}]", pairs.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables() {
        let columns = Columns::parse("WHO:.metadata.name,HOW:.data.size,ALL:.data").unwrap();
        let objects =
            [json!({"metadata": {"name": "a"}, "data": {"size": "1"}}), json!({"metadata": {"name": "b"}})];
        assert_eq!(
            columns.render(&objects, true).unwrap(),
            "WHO   HOW      ALL\na     1        map[size:1]\nb     <none>   <none>\n"
        );
    }

    #[test]
    fn specifications() {
        assert!(Columns::parse("A:.a[0,1],B:{.b}").is_ok());
        assert!(Columns::parse("A").is_err() && Columns::parse("A:").is_err());
        assert!(Columns::parse_file("A B\n.a .b\n").is_ok() && Columns::parse_file("A B\n.a\n").is_err());
    }
}
