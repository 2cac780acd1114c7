//! Rules of access as rows: one for each resource and path, in kubectl's order. Pure.

use serde_json::Value;

pub const COLUMNS: [&str; 4] = ["Resources", "Non-Resource URLs", "Resource Names", "Verbs"];

/// The rows of all rules. The same resource rule twice is told once.
pub fn rows<'a>(rules: impl IntoIterator<Item = &'a Value>) -> Vec<Vec<String>> {
    let words = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let bracketed = |words: &[String]| format!("[{}]", words.join(" "));
    // Sorted as kubectl does: by verbs, group, resource, names, path.
    let mut keyed: Vec<([String; 5], Vec<String>)> = Vec::new();
    for rule in rules {
        let (verbs, names) = (bracketed(&words(&rule["verbs"])), bracketed(&words(&rule["resourceNames"])));
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                let name = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
                let key = [
                    verbs.clone(),
                    format!("[{group}]"),
                    format!("[{resource}]"),
                    names.clone(),
                    String::new(),
                ];
                if !keyed.iter().any(|(known, _)| *known == key) {
                    keyed.push((key, vec![name, "[]".to_owned(), names.clone(), verbs.clone()]));
                }
            }
        }
        for path in words(&rule["nonResourceURLs"]) {
            let key = [verbs.clone(), String::new(), String::new(), names.clone(), format!("[{path}]")];
            keyed.push((key, vec![String::new(), format!("[{path}]"), "[]".to_owned(), verbs.clone()]));
        }
    }
    // Resources stand before paths of the same verbs.
    keyed.sort_by(|(a, _), (b, _)| (&a[0], !a[4].is_empty(), a).cmp(&(&b[0], !b[4].is_empty(), b)));
    keyed.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_row_each() {
        let rules = [
            json!({"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["get", "list"]}),
            json!({"nonResourceURLs": ["/b", "/a"], "verbs": ["get"]}),
            json!({"apiGroups": [""], "resources": ["pods/log"], "resourceNames": ["x"], "verbs": ["*"]}),
        ];
        let shown: Vec<String> = rows(&rules).iter().map(|row| row.join(" ")).collect();
        assert_eq!(
            shown,
            [
                "pods/log [] [x] [*]",
                "pods [] [] [get list]",
                "pods.apps [] [] [get list]",
                " [/a] [] [get]",
                " [/b] [] [get]"
            ]
        );
    }
}
