//! Label selectors of aggregated ClusterRoles.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// An empty selector matches everything, an unknown operator nothing.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal && selector.match_expressions.iter().flatten().all(|term| holds(term, labels))
}

fn holds(term: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&term.key);
    let listed = value.is_some_and(|v| term.values.iter().flatten().any(|listed| listed == v));
    match term.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let check = |selector, expected| {
            let parsed: LabelSelector = serde_json::from_value(selector).unwrap();
            assert_eq!(matches(&parsed, &labels), expected, "{parsed:?}");
        };
        let term = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        check(json!({}), true);
        check(json!({"matchLabels": {"a": "1"}}), true);
        check(json!({"matchLabels": {"a": "2"}}), false);
        check(json!({"matchLabels": {"a": "1", "b": "1"}}), false);
        check(term("a", "In", &["1", "2"]), true);
        check(term("b", "In", &["1"]), false);
        check(term("a", "NotIn", &["1"]), false);
        check(term("b", "NotIn", &["1"]), true);
        check(term("a", "Exists", &[]), true);
        check(term("a", "DoesNotExist", &[]), false);
        check(term("a", "Near", &["1"]), false);
    }
}
