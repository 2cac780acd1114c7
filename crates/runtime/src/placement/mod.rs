//! Rules about pods and nodes that scheduler, controllers and nodes must read alike: tolerations, node selector
//! terms, what a pod asks for, and which ports of its host it takes. Pure.

mod host_port;
mod resources;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

pub use host_port::{HostPort, host_ports};
pub use resources::{Resources, requested_by};

/// Whether any toleration covers the taint.
pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| covers(toleration, taint))
}

/// Whether this toleration covers the taint.
pub fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or("");
    let effect = toleration.effect.as_deref().unwrap_or("");
    let exists = toleration.operator.as_deref() == Some("Exists");
    let key_fits = key == taint.key || (key.is_empty() && exists);
    let effect_fits = effect.is_empty() || effect == taint.effect;
    let value = |v: &Option<String>| v.clone().unwrap_or_default();
    key_fits && effect_fits && (exists || value(&toleration.value) == value(&taint.value))
}

/// Whether a node is in one of the selector's terms.
pub fn selects_node(
    terms: &[NodeSelectorTerm],
    name: &str,
    labels: Option<&BTreeMap<String, String>>,
) -> bool {
    terms.iter().any(|term| term_admits(term, name, labels))
}

/// Whether `nodeSelector` and required node affinity of a pod admit a node.
pub fn admits(spec: &PodSpec, node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let wanted = spec.node_selector.iter().flatten();
    let selected =
        wanted.into_iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value));
    let name = node.metadata.name.as_deref().unwrap_or("");
    selected
        && required_terms(spec).is_none_or(|terms| selects_node(&terms.node_selector_terms, name, labels))
}

fn required_terms(spec: &PodSpec) -> Option<&NodeSelector> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    affinity.required_during_scheduling_ignored_during_execution.as_ref()
}

/// An empty term admits no node.
fn term_admits(term: &NodeSelectorTerm, name: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
    let by_label = term.match_expressions.as_deref().unwrap_or_default();
    let by_field = term.match_fields.as_deref().unwrap_or_default();
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let labels_meet = by_label.iter().all(|r| meets(r, label(&r.key)));
    let field = |key: &str| (key == "metadata.name").then_some(name);
    let fields_meet = by_field.iter().all(|r| meets(r, field(&r.key)));
    !(by_label.is_empty() && by_field.is_empty()) && labels_meet && fields_meet
}

fn meets(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = |meets: fn(i64, i64) -> bool| {
        let bound = values.first().and_then(|v| number(v));
        value.and_then(number).zip(bound).is_some_and(|(value, bound)| meets(value, bound))
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.iter().any(|v| v == value)),
        "NotIn" => value.is_none_or(|value| values.iter().all(|v| v != value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|value, bound| value > bound),
        "Lt" => compared(|value, bound| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_covers_what() {
        let check = |toleration: Value, expected: bool| {
            let shown = toleration.to_string();
            let taint: Taint =
                serde_json::from_value(json!({"key": "a", "value": "b", "effect": "NoSchedule"})).unwrap();
            let toleration: Toleration = serde_json::from_value(toleration).unwrap();
            assert_eq!(tolerates(&[toleration], &taint), expected, "{shown}");
        };
        check(json!({"key": "a", "value": "b", "effect": "NoSchedule"}), true);
        check(json!({"key": "a", "operator": "Equal", "value": "b"}), true);
        check(json!({"key": "a", "operator": "Exists"}), true);
        check(json!({"operator": "Exists"}), true);
        check(json!({}), false);
        check(json!({"key": "a", "value": "c"}), false);
        check(json!({"key": "a", "operator": "Exists", "effect": "NoExecute"}), false);
        check(json!({"key": "c", "operator": "Exists"}), false);
    }

    #[test]
    fn what_admits_what() {
        let check = |spec: Value, expected: bool| {
            let shown = spec.to_string();
            let node: Node =
                serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"a": "5"}}})).unwrap();
            let mut whole = json!({"containers": []});
            whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            let spec: PodSpec = serde_json::from_value(whole).unwrap();
            assert_eq!(admits(&spec, &node), expected, "{shown}");
        };
        let affinity = |term: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [term]}}}})
        };
        let by_name = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        check(json!({}), true);
        check(json!({"nodeSelector": {"a": "5"}}), true);
        check(json!({"nodeSelector": {"a": "6"}}), false);
        check(affinity(by_name("n")), true);
        check(affinity(by_name("m")), false);
        check(affinity(json!({})), false);
        check(affinity(json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["4"]}]})), true);
    }
}
