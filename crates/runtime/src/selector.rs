//! Label selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

/// A parsed selector. One that cannot be parsed, and an absent one, match nothing; an empty one matches
/// everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector(Option<Vec<Requirement>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
}

impl Selector {
    pub fn nothing() -> Self {
        Selector(None)
    }

    pub fn new(selector: Option<&LabelSelector>) -> Self {
        selector.map_or(Selector::nothing(), |selector| Selector(parse(selector)))
    }

    /// As ReplicationControllers and Services select: equal labels, and no labels select nothing.
    pub fn equal(labels: Option<&BTreeMap<String, String>>) -> Self {
        match labels {
            Some(labels) if !labels.is_empty() => Selector(Some(all_equal(labels))),
            _ => Selector::nothing(),
        }
    }

    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let value = |key: &String| labels.and_then(|labels| labels.get(key));
        let Some(requirements) = &self.0 else { return false };
        requirements.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => value(key).is_some_and(|v| values.contains(v)),
            Requirement::NotIn(key, values) => value(key).is_none_or(|v| !values.contains(v)),
            Requirement::Exists(key) => value(key).is_some(),
            Requirement::DoesNotExist(key) => value(key).is_none(),
        })
    }

    pub fn matches_object(&self, meta: &ObjectMeta) -> bool {
        self.matches(meta.labels.as_ref())
    }

    /// Selects everything, as an empty selector does.
    pub fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(Vec::is_empty)
    }

    pub fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    /// Also demands this label.
    #[must_use]
    pub fn and_equal(mut self, key: &str, value: &str) -> Self {
        if let Some(requirements) = &mut self.0 {
            requirements.push(Requirement::In(key.to_owned(), vec![value.to_owned()]));
        }
        self
    }

    /// Also refuses this label.
    #[must_use]
    pub fn and_not_equal(mut self, key: &str, value: &str) -> Self {
        if let Some(requirements) = &mut self.0 {
            requirements.push(Requirement::NotIn(key.to_owned(), vec![value.to_owned()]));
        }
        self
    }

    /// The selector as a string of the query language, e.g. `a=b,c in (d,e)`.
    pub fn to_query(&self) -> String {
        let words: Vec<String> = self.0.iter().flatten().map(Requirement::to_query).collect();
        words.join(",")
    }
}

impl Requirement {
    fn to_query(&self) -> String {
        match self {
            Requirement::In(key, values) if values.len() == 1 => format!("{key}={}", values[0]),
            Requirement::In(key, values) => format!("{key} in ({})", values.join(",")),
            Requirement::NotIn(key, values) if values.len() == 1 => format!("{key}!={}", values[0]),
            Requirement::NotIn(key, values) => format!("{key} notin ({})", values.join(",")),
            Requirement::Exists(key) => key.clone(),
            Requirement::DoesNotExist(key) => format!("!{key}"),
        }
    }
}

fn parse(selector: &LabelSelector) -> Option<Vec<Requirement>> {
    let mut requirements = selector.match_labels.as_ref().map(all_equal).unwrap_or_default();
    for expression in selector.match_expressions.iter().flatten() {
        let key = expression.key.clone();
        let values = expression.values.clone().unwrap_or_default();
        requirements.push(match (expression.operator.as_str(), values.is_empty()) {
            ("In", false) => Requirement::In(key, values),
            ("NotIn", false) => Requirement::NotIn(key, values),
            ("Exists", true) => Requirement::Exists(key),
            ("DoesNotExist", true) => Requirement::DoesNotExist(key),
            _ => return None,
        });
    }
    Some(requirements)
}

fn all_equal(labels: &BTreeMap<String, String>) -> Vec<Requirement> {
    labels.iter().map(|(key, value)| Requirement::In(key.clone(), vec![value.clone()])).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(selector: serde_json::Value, labels: &[(&str, &str)], expected: bool) {
        let parsed: Option<LabelSelector> = serde_json::from_value(selector.clone()).unwrap();
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let matches = Selector::new(parsed.as_ref()).matches(Some(&labels));
        assert_eq!(matches, expected, "{selector} on {labels:?}");
    }

    #[test]
    fn matching() {
        check(json!(null), &[("a", "b")], false);
        check(json!({}), &[], true);
        check(json!({"matchLabels": {"a": "b"}}), &[("a", "b"), ("c", "d")], true);
        check(json!({"matchLabels": {"a": "b"}}), &[("a", "c")], false);
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        check(expression("In", &["b", "c"]), &[("a", "c")], true);
        check(expression("In", &["b", "c"]), &[], false);
        check(expression("NotIn", &["b"]), &[], true);
        check(expression("NotIn", &["b"]), &[("a", "b")], false);
        check(expression("Exists", &[]), &[("a", "b")], true);
        check(expression("DoesNotExist", &[]), &[("a", "b")], false);
        check(expression("Sideways", &[]), &[("a", "b")], false);
        check(expression("In", &[]), &[("a", "b")], false);
    }

    #[test]
    fn queries() {
        let selector: LabelSelector = serde_json::from_value(json!({
            "matchLabels": {"a": "b"},
            "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["d", "e"]},
                {"key": "f", "operator": "DoesNotExist"},
            ],
        }))
        .unwrap();
        assert_eq!(Selector::new(Some(&selector)).to_query(), "a=b,c in (d,e),!f");
    }
}
