//! The text for kinds that have none of their own: every field, with its name in words.

use serde_json::Value;

use super::page::{Page, shown};

const TOLD_BEFORE: [&str; 5] = [
    "metadata.managedFields",
    "metadata.name",
    "metadata.namespace",
    "metadata.labels",
    "metadata.annotations",
];
const ACRONYMS: [&str; 5] = ["API", "URL", "UID", "OSB", "GUID"];

pub fn write(object: &Value, page: &mut Page) {
    let metadata = &object["metadata"];
    page.field(0, "Name", shown(&metadata["name"]));
    page.field(0, "Namespace", shown(&metadata["namespace"]));
    page.labels(object);
    page.annotations(object);
    fields(object, "", 0, page);
}

fn fields(value: &Value, path: &str, level: usize, page: &mut Page) {
    let mut map: Vec<(&String, &Value)> = value.as_object().into_iter().flatten().collect();
    map.sort_by_key(|(name, _)| name.as_str());
    for (name, below) in map {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if TOLD_BEFORE.contains(&path.as_str()) {
            continue;
        }
        let label = words(name);
        match below {
            Value::Object(_) => {
                page.line(level, format!("{label}:"));
                fields(below, &path, level + 1, page);
            }
            Value::Array(items) => {
                page.line(level, format!("{label}:"));
                for item in items {
                    match item {
                        Value::Object(_) => fields(item, &path, level + 1, page),
                        plain => page.line(level + 1, shown(plain)),
                    }
                }
            }
            plain => page.field(level, &label, shown(plain)),
        }
    }
}

/// `apiVersion` → `API Version`.
fn words(name: &str) -> String {
    if name.chars().any(|c| !c.is_alphabetic() && c != '-') {
        return name.to_owned();
    }
    let mut parts: Vec<String> = Vec::new();
    let chars: Vec<char> = name.chars().collect();
    for (i, &c) in chars.iter().enumerate() {
        let after_lower = i > 0 && chars[i - 1].is_lowercase();
        let before_lower = chars.get(i + 1).is_some_and(|next| next.is_lowercase());
        let begins =
            c.is_uppercase() && (after_lower || (before_lower && i > 0 && chars[i - 1].is_uppercase()));
        match parts.last_mut().filter(|_| !begins) {
            Some(part) => part.push(c),
            None => parts.push(c.to_string()),
        }
    }
    let word = |part: String| {
        let upper = part.to_uppercase();
        if ACRONYMS.contains(&upper.as_str()) {
            return upper;
        }
        let mut chars = part.chars();
        chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
    };
    parts.into_iter().map(word).collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_words() {
        for (name, expected) in [
            ("apiVersion", "API Version"),
            ("creationTimestamp", "Creation Timestamp"),
            ("uid", "UID"),
            ("targetURLPath", "Target URL Path"),
            ("a.b/c", "a.b/c"),
            ("kind", "Kind"),
        ] {
            assert_eq!(words(name), expected);
        }
    }
}
