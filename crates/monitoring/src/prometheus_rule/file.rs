//! PrometheusRules as files that engines read. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::monitors::PrometheusRule;

/// What Prometheus knows of a group and of a rule; more would make it refuse the file.
const GROUP: &[&str] = &["name", "interval", "limit"];
const RULE: &[&str] = &["record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations"];
/// An object has at most 3 MiB; what is beyond is left out, the last by name.
const LARGEST: usize = 900 * 1024;

/// Content by name. A name tells of the content, so that it shows which version an engine has read. JSON is YAML.
pub fn files<'a>(rules: impl IntoIterator<Item = &'a PrometheusRule>) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut room = LARGEST;
    for rule in rules {
        let groups = groups(&rule.spec);
        if groups.is_empty() {
            continue;
        }
        let text = serde_json::json!({"groups": groups}).to_string();
        if text.len() > room {
            tracing::warn!(name = ?rule.metadata.name, "too many rules: those of this PrometheusRule are left out");
            continue;
        }
        room -= text.len();
        let hash: String =
            Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let part = |name: &Option<String>| name.clone().unwrap_or_default();
        let name = format!("{}.{}", part(&rule.metadata.namespace), part(&rule.metadata.name));
        // A key of a ConfigMap has at most 253 characters, and so may each part have.
        let name: String = name.chars().take(200).collect();
        files.insert(format!("{name}.{hash}.yml"), text);
    }
    files
}

fn groups(spec: &Value) -> Vec<Value> {
    let chosen = |object: &Value, known: &[&str]| -> Map<String, Value> {
        let fields = object.as_object().into_iter().flatten();
        fields
            .filter(|(name, value)| known.contains(&name.as_str()) && !value.is_null() && *value != "")
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let groups = spec["groups"].as_array().into_iter().flatten();
    groups
        .map(|group| {
            let rules = group["rules"].as_array().into_iter().flatten();
            let rules: Vec<Value> = rules
                .map(|rule| {
                    let mut rule = chosen(rule, RULE);
                    if let Some(number) = rule.get("expr").filter(|expression| expression.is_number()) {
                        let text = number.to_string();
                        rule.insert("expr".to_owned(), text.into());
                    }
                    Value::Object(rule)
                })
                .collect();
            let mut group = chosen(group, GROUP);
            group.insert("rules".to_owned(), rules.into());
            Value::Object(group)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_have_what_prometheus_knows_and_names_that_tell_of_the_content() {
        let rule = |expression: &str| -> PrometheusRule {
            serde_json::from_value(json!({
                "metadata": {"name": "r", "namespace": "shop"},
                "spec": {"groups": [{"name": "g", "partial_response_strategy": "warn", "interval": "", "rules": [
                    {"alert": "A", "expr": expression, "for": "1m"}, {"record": "one", "expr": 1}]}]},
            }))
            .unwrap()
        };
        let first = files([&rule("up == 0")]);
        let (name, text) = first.first_key_value().unwrap();
        assert!(name.starts_with("shop.r.") && name.ends_with(".yml"), "{name}");
        let content: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            content,
            json!({"groups": [{"name": "g", "rules": [{"alert": "A", "expr": "up == 0", "for": "1m"}, {"record": "one", "expr": "1"}]}]})
        );
        assert_ne!(files([&rule("up == 1")]).keys().next(), Some(name));
        let empty: PrometheusRule = serde_json::from_value(json!({"metadata": {"name": "r"}})).unwrap();
        assert!(files([&empty]).is_empty());
    }
}
