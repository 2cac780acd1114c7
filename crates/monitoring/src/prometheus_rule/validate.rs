//! What a PrometheusRule may say, in the words of promtool.

use std::collections::BTreeSet;

use minik8s_api::{At, FieldErrors, Resource, Strategy};
use serde_json::Value;

use super::template;
use crate::monitors::{PrometheusRule, duration_milliseconds, is_label_name};
use crate::promql;

pub fn resource() -> Resource {
    Resource::of::<PrometheusRule>(Rules).short(&["promrule"]).counted().status()
}

struct Rules;

impl Strategy for Rules {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let mut names = BTreeSet::new();
        for group in At::root(object).field("spec").field("groups").items() {
            let name = group.field("name");
            if name.need(errors) && !names.insert(name.text()) {
                name.duplicate(errors);
            }
            duration(&group.field("interval"), errors);
            for rule in group.field("rules").items() {
                validate_rule(&rule, errors);
            }
        }
    }
}

fn validate_rule(rule: &At<'_>, errors: &mut FieldErrors) {
    let (alert, record, expression) = (rule.field("alert"), rule.field("record"), rule.field("expr"));
    match (alert.is_set(), record.is_set()) {
        (true, true) => record.forbidden(errors, "only one of 'record' and 'alert' must be set"),
        (false, false) => rule.required(errors, "one of 'record' or 'alert' must be set"),
        (false, true) => {
            if !promql::is_metric_name(record.text()) {
                record.invalid(errors, format!("invalid recording rule name: {}", record.text()));
            }
            for name in ["for", "annotations", "keep_firing_for"] {
                if rule.field(name).is_set() {
                    rule.field(name).forbidden(errors, format!("invalid field '{name}' in recording rule"));
                }
            }
        }
        (true, false) => {}
    }
    let text = match expression.value {
        // A number is an expression.
        Value::Number(number) => number.to_string(),
        _ => expression.text().to_owned(),
    };
    if text.is_empty() {
        expression.required(errors, "field 'expr' must be set in rule");
    } else if let Err(problem) = promql::check(&text) {
        expression.invalid(errors, format!("could not parse expression: {problem}"));
    }
    duration(&rule.field("for"), errors);
    duration(&rule.field("keep_firing_for"), errors);
    for (name, label) in rule.field("labels").entries() {
        if !is_label_name(name) || name == "__name__" {
            label.invalid(errors, format!("invalid label name: {name}"));
        }
    }
    let is_alert = alert.is_set();
    for field in ["labels", "annotations"].into_iter().filter(|_| is_alert) {
        for (name, value) in rule.field(field).entries() {
            if !is_label_name(name) {
                value.invalid(errors, format!("invalid annotation name: {name}"));
            } else if let Err(problem) = template::check(value.text()) {
                value.invalid(errors, format!("error parsing template: {problem}"));
            }
        }
    }
}

fn duration(field: &At<'_>, errors: &mut FieldErrors) {
    if field.is_set() && duration_milliseconds(field.text()).is_none() {
        field.invalid(errors, "not a valid duration string: give one as 5m or 1h30m");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(rule: Value, expected: &[&str]) {
        let mut errors = FieldErrors::default();
        Rules.validate(&json!({"spec": {"groups": [{"name": "g", "rules": [rule]}]}}), &mut errors);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found}\n{expected}");
        }
    }

    #[test]
    fn broken_rules_are_refused_with_the_field_and_promtools_words() {
        check(
            json!({"alert": "Down", "expr": "up == 0", "for": "5m", "labels": {"severity": "page"},
            "annotations": {"summary": "{{ $labels.job }} is down: {{ $value | humanize }}"}}),
            &[],
        );
        check(json!({"record": "job:up:sum", "expr": "sum by (job) (up)"}), &[]);
        check(json!({"alert": "One", "expr": 1}), &[]);
        check(
            json!({"alert": "Down", "expr": "up == "}),
            &[
                "spec.groups[0].rules[0].expr: Invalid value: \"up == \": could not parse expression: 1:7: parse error: unexpected end of input",
            ],
        );
        check(json!({"expr": "up"}), &["one of 'record' or 'alert' must be set"]);
        check(
            json!({"alert": "a", "record": "b", "expr": "up"}),
            &["only one of 'record' and 'alert' must be set"],
        );
        check(json!({"alert": "a"}), &["field 'expr' must be set in rule"]);
        check(json!({"record": "a b", "expr": "up"}), &["invalid recording rule name: a b"]);
        check(json!({"record": "a", "expr": "up", "for": "5m"}), &["invalid field 'for' in recording rule"]);
        check(json!({"alert": "a", "expr": "up", "for": "soon"}), &["not a valid duration string"]);
        check(
            json!({"alert": "a", "expr": "up", "labels": {"1a": "x"}}),
            &["invalid label name: 1a", "invalid annotation name: 1a"],
        );
        check(
            json!({"alert": "a", "expr": "up", "annotations": {"summary": "{{ $labels.job"}}),
            &[
                "rules[0].annotations[summary]: Invalid value: \"{{ $labels.job\": error parsing template: unclosed action",
            ],
        );
    }

    #[test]
    fn groups_have_names_of_their_own() {
        let mut errors = FieldErrors::default();
        let groups = json!([{"name": "g"}, {"name": "g", "interval": "x"}, {}]);
        Rules.validate(&json!({"spec": {"groups": groups}}), &mut errors);
        assert_eq!(errors.iter().count(), 3);
    }
}
