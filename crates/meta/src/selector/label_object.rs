//! `LabelSelector` objects: `matchLabels` and `matchExpressions` of a spec. Whether one is valid is not judged here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde_json::Value;

use super::SelectorError;
use super::label::{LabelSelector, Operator, Requirement};

impl LabelSelector {
    /// From the object's JSON form: absent selects nothing, empty selects everything.
    pub fn from_value(selector: Option<&Value>) -> Result<Self, SelectorError> {
        let Some(Value::Object(selector)) = selector else { return Ok(LabelSelector::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| expression[field].as_str().unwrap_or_default();
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(requirement(text("key"), text("operator"), values)?);
        }
        Ok(LabelSelector::new(requirements))
    }

    /// From a map of labels that must all be there, as a ReplicationController or Service has it.
    pub fn from_map(labels: Option<&serde_json::Map<String, Value>>) -> Result<Self, SelectorError> {
        let labels = labels.into_iter().flatten();
        let equal = labels.map(|(key, value)| {
            Requirement::new(key, Operator::Equals, vec![value.as_str().unwrap_or_default().to_owned()])
        });
        Ok(LabelSelector::new(equal.collect::<Result<_, _>>()?))
    }
}

/// From the typed object, as controllers hold it.
impl TryFrom<&meta::LabelSelector> for LabelSelector {
    type Error = SelectorError;

    fn try_from(selector: &meta::LabelSelector) -> Result<Self, SelectorError> {
        let labels = selector.match_labels.iter().flatten();
        let equal = labels.map(|(key, value)| Requirement::new(key, Operator::Equals, vec![value.clone()]));
        let expressions = selector.match_expressions.iter().flatten();
        let expressions =
            expressions.map(|e| requirement(&e.key, &e.operator, e.values.clone().unwrap_or_default()));
        Ok(LabelSelector::new(equal.chain(expressions).collect::<Result<_, _>>()?))
    }
}

fn requirement(key: &str, operator: &str, values: Vec<String>) -> Result<Requirement, SelectorError> {
    let operator = match operator {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => return Err(SelectorError(format!("{other:?} is not a valid label selector operator"))),
    };
    if matches!(operator, Operator::Exists | Operator::DoesNotExist) && !values.is_empty() {
        return Err(SelectorError(
            "values: Invalid value: values set must be empty for exists and does not exist".into(),
        ));
    }
    Requirement::new(key, operator, values)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(selector: Value, labels: Value, expected: bool) {
        let parsed = LabelSelector::from_value(Some(&selector)).expect("valid");
        assert_eq!(parsed.matches(labels.as_object()), expected, "{selector} on {labels}");
        let typed: meta::LabelSelector = serde_json::from_value(selector).expect("typed");
        assert_eq!(LabelSelector::try_from(&typed).expect("valid"), parsed);
    }

    #[test]
    fn objects_match() {
        check(json!({}), json!({}), true);
        check(json!({"matchLabels": {"a": "b"}}), json!({"a": "b", "c": "d"}), true);
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        check(expression("In", &["b", "c"]), json!({"a": "c"}), true);
        check(expression("NotIn", &["b", "c"]), json!({"a": "c"}), false);
        check(expression("Exists", &[]), json!({"a": ""}), true);
        check(expression("DoesNotExist", &[]), json!({"a": ""}), false);
        assert!(!LabelSelector::from_value(None).expect("valid").matches(None));
    }
}
