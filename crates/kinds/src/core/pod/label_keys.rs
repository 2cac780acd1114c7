//! `matchLabelKeys`: selectors that speak of "pods with the same label as this one".
//!
//! A pod's labels are known when it is created, so they are written into its selectors then, and whoever
//! schedules it needs to look at selectors alone.

use serde_json::{Value, json};

use crate::fill;

/// Extends the selectors of pod affinity terms and topology spread constraints.
pub(super) fn write_into_selectors(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    for constraint in fill::items(spec, "topologySpreadConstraints") {
        extend(constraint, &labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else {
            continue;
        };
        for term in fill::items(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            extend(term, &labels);
        }
        for weighted in fill::items(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                extend(term, &labels);
            }
        }
    }
}

fn extend(term: &mut Value, labels: &Value) {
    let mut expressions = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term[field].as_array().into_iter().flatten() {
            let value = &labels[key.as_str().unwrap_or_default()];
            if value.is_string() {
                expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(selector) = term.get_mut("labelSelector").filter(|selector| selector.is_object()) else {
        return;
    };
    if expressions.is_empty() {
        return;
    }
    match selector["matchExpressions"].as_array_mut() {
        Some(existing) => existing.extend(expressions),
        None => selector["matchExpressions"] = expressions.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn own_labels_are_written_out() {
        let term =
            json!({"labelSelector": {}, "matchLabelKeys": ["v", "absent"], "mismatchLabelKeys": ["t"]});
        let mut pod = json!({
            "metadata": {"labels": {"v": "1", "t": "x"}},
            "spec": {
                "topologySpreadConstraints": [{"labelSelector": {}, "matchLabelKeys": ["v"]}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
            },
        });
        super::write_into_selectors(&mut pod);
        let same_version = json!({"key": "v", "operator": "In", "values": ["1"]});
        let other_tenant = json!({"key": "t", "operator": "NotIn", "values": ["x"]});
        let spread = &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"];
        assert_eq!(spread["matchExpressions"], json!([same_version]));
        let terms =
            &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(terms[0]["labelSelector"]["matchExpressions"], json!([same_version, other_tenant]));
    }
}
