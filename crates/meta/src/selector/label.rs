//! Label selectors as values: a list of requirements that must all hold.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::SelectorError;
use crate::format;

/// What an object's labels must fulfil. The default selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Sorted by key; None selects nothing, as an absent selector of a workload does.
    requirements: Option<Vec<Requirement>>,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    /// Sorted and without repetition.
    pub values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl Default for LabelSelector {
    fn default() -> Self {
        LabelSelector::everything()
    }
}

impl LabelSelector {
    pub fn everything() -> Self {
        LabelSelector { requirements: Some(Vec::new()) }
    }

    pub fn nothing() -> Self {
        LabelSelector { requirements: None }
    }

    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements: Some(requirements) }
    }

    /// The string form: `app=web,tier in (a,b),!canary,env!=prod,gen>3`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        super::label_parser::parse(text).map(LabelSelector::new)
    }

    /// Whether this selects every object, whatever its labels.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Empty both for everything and for nothing.
    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// Matches `metadata.labels` of a JSON object.
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.matches_by(|key| labels.and_then(|map| map.get(key)).and_then(Value::as_str))
    }

    /// Matches the labels of a typed object.
    pub fn matches_labels(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        self.matches_by(|key| labels.and_then(|map| map.get(key)).map(String::as_str))
    }

    /// Matches labels wherever they are: `value_of` looks one up.
    pub fn matches_by<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.requirements {
            Some(requirements) => requirements.iter().all(|r| r.holds(value_of(&r.key))),
            None => false,
        }
    }
}

impl Requirement {
    /// Checks key, operator and values against each other.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, SelectorError> {
        let fail = |message: String| Err(SelectorError(message));
        if let Some(problem) = format::qualified_name(key).first() {
            return fail(format!("key: Invalid value: {key:?}: {problem}"));
        }
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                return fail(
                    "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
                        .into(),
                );
            }
            Operator::GreaterThan | Operator::LessThan
                if values.iter().any(|v| v.parse::<i64>().is_err()) =>
            {
                let value = values.first().map_or("", String::as_str);
                return fail(format!(
                    "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                ));
            }
            _ => {}
        }
        for (i, value) in values.iter().enumerate() {
            if let Some(problem) = format::label_value(value).first() {
                return fail(format!("values[{i}][{key}]: Invalid value: {value:?}: {problem}"));
            }
        }
        values.sort();
        values.dedup();
        Ok(Requirement { key: key.to_owned(), operator, values })
    }

    /// Whether a label's value, or its absence, fulfils this requirement.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        let compare = |value: &str, wanted: fn(&i64, &i64) -> bool| {
            let bound = self.values.first().and_then(|v| v.parse::<i64>().ok());
            value.parse::<i64>().ok().zip(bound).is_some_and(|(value, bound)| wanted(&value, &bound))
        };
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(listed),
            Operator::NotEquals | Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => value.is_some_and(|v| compare(v, i64::gt)),
            Operator::LessThan => value.is_some_and(|v| compare(v, i64::lt)),
        }
    }
}

/// The canonical string form; parsing it gives the same selector again.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements().iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.join(",");
        let key = &self.key;
        match self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::LabelSelector;

    fn check(selector: &str, labels: serde_json::Value, expected: bool) {
        let parsed = LabelSelector::parse(selector).expect(selector);
        assert_eq!(parsed.matches(labels.as_object()), expected, "{selector} on {labels}");
    }

    #[test]
    fn matching() {
        check("", json!({}), true);
        check("a=b", json!({"a": "b"}), true);
        check("a==b", json!({"a": "c"}), false);
        check("a=", json!({"a": ""}), true);
        check("a=", json!({}), false);
        check("a!=b", json!({}), true);
        check("a!=b", json!({"a": "b"}), false);
        check("a in (b, c)", json!({"a": "c"}), true);
        check("a in (b,c)", json!({"a": "d"}), false);
        check("a in (,b)", json!({"a": ""}), true);
        check("a notin (b,c)", json!({}), true);
        check("a notin (b,c)", json!({"a": "b"}), false);
        check("a", json!({"a": ""}), true);
        check("!a", json!({"a": ""}), false);
        check("! a", json!({"b": ""}), true);
        check("a>3", json!({"a": "4"}), true);
        check("a<3", json!({"a": "4"}), false);
        check("a>3", json!({"a": "x"}), false);
        check("a=b,!c,d in (e)", json!({"a": "b", "d": "e"}), true);
        check("in in (in,notin)", json!({"in": "notin"}), true);
    }

    #[test]
    fn an_absent_selector_matches_nothing() {
        assert!(!LabelSelector::nothing().matches(json!({"a": "b"}).as_object()));
        assert!(LabelSelector::everything().matches(None));
    }
}
