//! Relabelling as Prometheus does it: rules that make labels of labels, or say that a target is none. Pure.

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use regex::Regex;
use serde_json::Value;

pub type LabelSet = BTreeMap<String, String>;

/// One rule.
#[derive(Debug)]
pub struct Rule {
    source: Vec<String>,
    separator: String,
    regex: Regex,
    target: String,
    replacement: String,
    modulus: u64,
    action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Action {
    Replace,
    Keep,
    Drop,
    KeepEqual,
    DropEqual,
    HashMod,
    LabelMap,
    LabelDrop,
    LabelKeep,
    Lowercase,
    Uppercase,
}

const ACTIONS: &[(&str, Action)] = &[
    ("replace", Action::Replace),
    ("keep", Action::Keep),
    ("drop", Action::Drop),
    ("keepequal", Action::KeepEqual),
    ("dropequal", Action::DropEqual),
    ("hashmod", Action::HashMod),
    ("labelmap", Action::LabelMap),
    ("labeldrop", Action::LabelDrop),
    ("labelkeep", Action::LabelKeep),
    ("lowercase", Action::Lowercase),
    ("uppercase", Action::Uppercase),
];

/// A pattern that is larger when compiled is refused: monitors are written by anybody.
const LARGEST_PATTERN: usize = 256 * 1024;

impl Rule {
    /// As monitors write it: `{sourceLabels, separator, regex, targetLabel, replacement, modulus, action}`.
    pub fn read(rule: &Value) -> Result<Self, String> {
        let text = |name: &str| rule[name].as_str();
        let written = text("action").unwrap_or("replace").to_ascii_lowercase();
        let action = ACTIONS.iter().find(|(name, _)| *name == written).map(|(_, action)| *action);
        let action = action.ok_or_else(|| {
            let known: Vec<&str> = ACTIONS.iter().map(|(name, _)| *name).collect();
            format!("unknown relabel action {written:?}: use one of {}", known.join(", "))
        })?;
        let pattern = text("regex").unwrap_or("(.*)");
        let regex = regex::RegexBuilder::new(&format!("^(?s:{pattern})$"))
            .size_limit(LARGEST_PATTERN)
            .build()
            .map_err(|error| format!("regex {pattern:?}: {error}"))?;
        let target = text("targetLabel").unwrap_or_default().to_owned();
        let modulus = rule["modulus"].as_u64().unwrap_or(0);
        let needs_target = matches!(
            action,
            Action::Replace
                | Action::HashMod
                | Action::Lowercase
                | Action::Uppercase
                | Action::KeepEqual
                | Action::DropEqual
        );
        if needs_target && target.is_empty() {
            return Err(format!("relabel configuration for {written} action requires 'target_label' value"));
        }
        if action == Action::HashMod && modulus == 0 {
            return Err("relabel configuration for hashmod requires non-zero modulus".to_owned());
        }
        let list = rule["sourceLabels"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(Rule {
            source: list.map(str::to_owned).collect(),
            separator: text("separator").unwrap_or(";").to_owned(),
            regex,
            target,
            replacement: text("replacement").unwrap_or("$1").to_owned(),
            modulus,
            action,
        })
    }

    /// False when the target is dropped.
    pub fn apply(&self, labels: &mut LabelSet) -> bool {
        let values: Vec<&str> =
            self.source.iter().map(|name| labels.get(name).map_or("", String::as_str)).collect();
        let value = values.join(&self.separator);
        match self.action {
            Action::Keep => return self.regex.is_match(&value),
            Action::Drop => return !self.regex.is_match(&value),
            Action::KeepEqual => return labels.get(&self.target).map_or("", String::as_str) == value,
            Action::DropEqual => return labels.get(&self.target).map_or("", String::as_str) != value,
            Action::Replace => self.replace(&value, labels),
            Action::Lowercase => put(labels, self.target.clone(), value.to_lowercase()),
            Action::Uppercase => put(labels, self.target.clone(), value.to_uppercase()),
            Action::HashMod => {
                let hash = Md5::digest(value.as_bytes());
                let number = hash[8..].iter().fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
                put(labels, self.target.clone(), (number % self.modulus).to_string());
            }
            Action::LabelMap => {
                let found: Vec<(String, String)> = labels
                    .iter()
                    .filter_map(|(name, value)| {
                        let captures = self.regex.captures(name)?;
                        let mut new = String::new();
                        captures.expand(&self.replacement, &mut new);
                        Some((new, value.clone()))
                    })
                    .collect();
                found.into_iter().for_each(|(name, value)| put(labels, name, value));
            }
            Action::LabelDrop => labels.retain(|name, _| !self.regex.is_match(name)),
            Action::LabelKeep => labels.retain(|name, _| self.regex.is_match(name)),
        }
        true
    }

    fn replace(&self, value: &str, labels: &mut LabelSet) {
        let Some(captures) = self.regex.captures(value) else { return };
        let (mut target, mut new) = (String::new(), String::new());
        captures.expand(&self.target, &mut target);
        captures.expand(&self.replacement, &mut new);
        if is_label_name(&target) {
            put(labels, target, new);
        }
    }
}

/// An empty label is none.
fn put(labels: &mut LabelSet, name: String, value: String) {
    match value.is_empty() {
        true => labels.remove(&name),
        false => labels.insert(name, value),
    };
}

pub fn is_label_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(rule: Value, labels: &[(&str, &str)], expected: Option<&[(&str, &str)]>) {
        let set = |all: &[(&str, &str)]| -> LabelSet {
            all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mut found = set(labels);
        let kept = Rule::read(&rule).unwrap().apply(&mut found);
        assert_eq!(kept.then_some(found), expected.map(set), "{rule}");
    }

    #[test]
    fn rules_do_what_those_of_prometheus_do() {
        let ab = &[("a", "foo"), ("b", "bar")][..];
        check(
            json!({"sourceLabels": ["a", "b"], "regex": "f(.*);(.*)r", "targetLabel": "c", "replacement": "ch${1}-ch${2}"}),
            ab,
            Some(&[("a", "foo"), ("b", "bar"), ("c", "choo-chba")]),
        );
        check(json!({"sourceLabels": ["a"], "regex": "x", "targetLabel": "c"}), ab, Some(ab));
        check(json!({"sourceLabels": ["a"], "regex": "f.*", "action": "drop"}), ab, None);
        check(json!({"sourceLabels": ["a"], "regex": "o", "action": "Drop"}), ab, Some(ab));
        check(json!({"sourceLabels": ["a"], "regex": "fo+", "action": "keep"}), ab, Some(ab));
        check(json!({"sourceLabels": ["none"], "regex": "fo+", "action": "keep"}), ab, None);
        check(
            json!({"regex": "(a)", "replacement": "new_$1", "action": "labelmap"}),
            ab,
            Some(&[("a", "foo"), ("b", "bar"), ("new_a", "foo")]),
        );
        check(json!({"regex": "a", "action": "labeldrop"}), ab, Some(&[("b", "bar")]));
        check(json!({"regex": "a", "action": "labelkeep"}), ab, Some(&[("a", "foo")]));
        check(
            json!({"sourceLabels": ["a"], "targetLabel": "b", "replacement": ""}),
            ab,
            Some(&[("a", "foo")]),
        );
        check(
            json!({"sourceLabels": ["a"], "targetLabel": "b", "action": "uppercase"}),
            ab,
            Some(&[("a", "foo"), ("b", "FOO")]),
        );
        check(json!({"sourceLabels": ["a"], "targetLabel": "b", "action": "keepequal"}), ab, None);
        check(
            json!({"sourceLabels": ["c"], "targetLabel": "d", "modulus": 1000, "action": "hashmod"}),
            &[("c", "baz")],
            Some(&[("c", "baz"), ("d", "976")]),
        );
    }

    #[test]
    fn rules_that_prometheus_would_refuse_are_refused() {
        for (rule, expected) in [
            (json!({"action": "explode"}), "unknown relabel action \"explode\""),
            (json!({"regex": "("}), "regex \"(\""),
            (json!({"regex": "(a{1000}){1000}", "targetLabel": "x"}), "regex"),
            (json!({"sourceLabels": ["a"]}), "requires 'target_label' value"),
            (json!({"targetLabel": "a", "action": "hashmod"}), "requires non-zero modulus"),
        ] {
            let error = Rule::read(&rule).unwrap_err();
            assert!(error.contains(expected), "{rule}: {error}");
        }
    }
}
