//! Label selectors as controllers use them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as Object, ObjectMeta};
use minik8s_meta::{LabelSelector, Operator, Requirement};

/// A selector that cannot be parsed, and an absent one, match nothing; an empty one matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector(LabelSelector);

/// One that was read elsewhere, such as the text in a Scale.
impl From<LabelSelector> for Selector {
    fn from(selector: LabelSelector) -> Self {
        Selector(selector)
    }
}

impl Selector {
    pub fn nothing() -> Self {
        Selector(LabelSelector::nothing())
    }

    pub fn new(selector: Option<&Object>) -> Self {
        let parsed = selector.and_then(|selector| LabelSelector::try_from(selector).ok());
        parsed.map_or(Selector::nothing(), Selector)
    }

    /// As ReplicationControllers and Services select: equal labels, and no labels select nothing.
    pub fn equal(labels: Option<&BTreeMap<String, String>>) -> Self {
        match labels {
            Some(labels) if !labels.is_empty() => {
                let requirements =
                    labels.iter().map(|(key, value)| requirement(key, Operator::Equals, value)).collect();
                Selector(LabelSelector::new(requirements))
            }
            _ => Selector::nothing(),
        }
    }

    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        self.0.matches_labels(labels)
    }

    pub fn matches_object(&self, meta: &ObjectMeta) -> bool {
        self.matches(meta.labels.as_ref())
    }

    /// Selects everything, as an empty selector does.
    pub fn is_everything(&self) -> bool {
        self.0.is_everything()
    }

    pub fn is_nothing(&self) -> bool {
        self.0 == LabelSelector::nothing()
    }

    /// Also demands this label.
    #[must_use]
    pub fn and_equal(self, key: &str, value: &str) -> Self {
        self.and(requirement(key, Operator::Equals, value))
    }

    /// Also refuses this label.
    #[must_use]
    pub fn and_not_equal(self, key: &str, value: &str) -> Self {
        self.and(requirement(key, Operator::NotEquals, value))
    }

    fn and(self, more: Requirement) -> Self {
        if self.is_nothing() {
            return self;
        }
        let mut requirements = self.0.requirements().to_vec();
        requirements.push(more);
        Selector(LabelSelector::new(requirements))
    }

    /// The selector in the query language, e.g. `a=b,c in (d,e)`.
    pub fn to_query(&self) -> String {
        self.0.to_string()
    }
}

/// Of labels that exist somewhere, and so need no further checks.
fn requirement(key: &str, operator: Operator, value: &str) -> Requirement {
    Requirement { key: key.to_owned(), operator, values: vec![value.to_owned()] }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(selector: serde_json::Value, labels: &[(&str, &str)], expected: bool) {
        let parsed: Option<Object> = serde_json::from_value(selector.clone()).unwrap();
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
        let selector: Object = serde_json::from_value(json!({
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
