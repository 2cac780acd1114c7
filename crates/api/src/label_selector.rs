//! What is wrong with a `LabelSelector` object of a spec, field by field. Reading and matching selectors is `minik8s-meta`'s.

use serde_json::Value;

use crate::{FieldErrors, Path, format, metadata};

/// Reports every problem of a `LabelSelector` object at its field.
pub fn validate_label_selector(selector: &Value, path: &Path, errors: &mut FieldErrors) {
    metadata::validate_labels(&selector["matchLabels"], &path.field("matchLabels"), errors);
    for (i, expression) in selector["matchExpressions"].as_array().into_iter().flatten().enumerate() {
        validate_expression(expression, &path.field("matchExpressions").index(i), errors);
    }
}

fn validate_expression(expression: &Value, path: &Path, errors: &mut FieldErrors) {
    let values = expression["values"].as_array().map(Vec::as_slice).unwrap_or_default();
    match expression["operator"].as_str().unwrap_or_default() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(path.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(
                path.field("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            );
        }
        "Exists" | "DoesNotExist" => {}
        other => errors.invalid(path.field("operator"), other, "not a valid selector operator"),
    }
    let key = expression["key"].as_str().unwrap_or_default();
    for problem in format::qualified_name(key) {
        errors.invalid(path.field("key"), key, problem);
    }
    for (i, value) in values.iter().enumerate() {
        for problem in format::label_value(value.as_str().unwrap_or_default()) {
            errors.invalid(path.field("values").index(i), value.clone(), problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn problems_point_at_fields() {
        let selector = json!({
            "matchLabels": {"a b": "c", "d": "-"},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["b"]},
                {"key": "", "operator": "Like", "values": ["b c"]},
            ],
        });
        let mut errors = FieldErrors::default();
        validate_label_selector(&selector, &Path::new("spec").field("selector"), &mut errors);
        let paths: Vec<String> = errors.iter().map(|e| e.path.to_string()).collect();
        assert_eq!(
            paths,
            [
                "spec.selector.matchLabels",
                "spec.selector.matchLabels",
                "spec.selector.matchExpressions[0].values",
                "spec.selector.matchExpressions[1].values",
                "spec.selector.matchExpressions[2].operator",
                "spec.selector.matchExpressions[2].key",
                "spec.selector.matchExpressions[2].key",
                "spec.selector.matchExpressions[2].values[0]",
            ]
        );
    }
}
