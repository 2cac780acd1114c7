//! What may change in a pod that exists: very little, for its containers may already run.

use serde_json::Value;

use crate::At;
use crate::FieldErrors;
use crate::fill;
use crate::pod_spec::containers::{INIT, MAIN};
use crate::pod_spec::equality::{differing, same};

const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),\
     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// A change through the pod itself.
pub(super) fn validate(pod: &Value, old: &Value, errors: &mut FieldErrors) {
    let (spec, old) = (At::root(pod).field("spec"), At::root(old).field("spec"));
    for list in [INIT, MAIN] {
        if spec.field(list).len() != old.field(list).len() {
            return spec.field(list).forbidden(errors, "pod updates may not add or remove containers");
        }
    }
    deadline(&spec.field("activeDeadlineSeconds"), &old.field("activeDeadlineSeconds"), errors);
    tolerations(&spec.field("tolerations"), &old.field("tolerations"), errors);
    gates(&spec.field("schedulingGates"), &old.field("schedulingGates"), errors);

    // With everything put back that may change, nothing may differ.
    let mut rest = spec.value.clone();
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        fill::restore(&mut rest, old.value, field);
    }
    let negative = old.value["terminationGracePeriodSeconds"].as_i64().is_some_and(|n| n < 0);
    if negative && rest["terminationGracePeriodSeconds"] == 1 {
        fill::restore(&mut rest, old.value, "terminationGracePeriodSeconds");
    }
    for list in [INIT, MAIN] {
        for (container, old) in fill::items(&mut rest, list).zip(old.field(list).items()) {
            fill::restore(container, old.value, "image");
        }
    }
    if old.field("schedulingGates").is_set() {
        node_selection(&spec, &old, errors);
        fill::restore(&mut rest, old.value, "nodeSelector");
        restore_node_affinity(&mut rest, old.value);
    }
    let changed = differing(&rest, old.value);
    if !changed.is_empty() {
        let changed: Vec<String> = changed.iter().map(|field| format!("`spec.{field}`")).collect();
        spec.forbidden(
            errors,
            format!(
                "pod updates may not change fields other than {CHANGEABLE}\nchanged: {}",
                changed.join(", ")
            ),
        );
    }
}

/// A change through `ephemeralcontainers`: the ones that are there stay as they are.
pub(super) fn validate_ephemeral_containers(pod: &Value, old: &Value, errors: &mut FieldErrors) {
    let containers = At::root(pod).field("spec").field("ephemeralContainers");
    let old = At::root(old).field("spec").field("ephemeralContainers");
    for known in old.items() {
        let name = known.field("name").text();
        match containers.items().find(|container| container.field("name").text() == name) {
            None => containers
                .forbidden(errors, format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(now) if !same(now.value, known.value) => containers
                .forbidden(errors, format!("existing ephemeral containers {name:?} may not be changed\n")),
            Some(_) => {}
        }
    }
}

/// A change through `resize`: amounts may change, but not what kind of pod it is.
pub(super) fn validate_resize(pod: &Value, old: &Value, errors: &mut FieldErrors) {
    use crate::pod_spec::qos;
    if qos::class(&pod["spec"]) != qos::class(&old["spec"]) {
        At::root(pod).field("spec").invalid(errors, "Pod QOS Class may not change as a result of resizing");
    }
    for list in [INIT, MAIN] {
        let (containers, old) =
            (At::root(pod).field("spec").field(list), At::root(old).field("spec").field(list));
        for (container, old) in containers.items().zip(old.items()) {
            for kind in ["limits", "requests"] {
                let amounts = container.field("resources").field(kind);
                for (name, amount) in amounts.entries() {
                    let before = &old.value["resources"][kind][name];
                    if !matches!(name, "cpu" | "memory") && before != amount.value {
                        amount.forbidden(errors, "only cpu and memory resources are mutable");
                    }
                }
                for (name, _) in old.field("resources").field(kind).entries() {
                    if amounts.value[name].is_null() {
                        amounts.forbidden(errors, format!("resource {kind} cannot be removed"));
                    }
                }
            }
        }
    }
}

fn deadline(new: &At<'_>, old: &At<'_>, errors: &mut FieldErrors) {
    match (new.int(), old.int()) {
        (Some(new_seconds), Some(old_seconds)) if new_seconds > old_seconds => {
            new.invalid(errors, "must be less than or equal to previous value");
        }
        (None, Some(_)) => new.invalid(errors, "must not update from a positive integer to nil value"),
        _ => {}
    }
}

/// Existing ones may change their seconds, and further ones may come.
fn tolerations(new: &At<'_>, old: &At<'_>, errors: &mut FieldErrors) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        fill::remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    for known in old.items() {
        let known = without_seconds(known.value);
        if !new.items().any(|toleration| same(&without_seconds(toleration.value), &known)) {
            new.forbidden(errors, "existing toleration can not be modified except its tolerationSeconds");
        }
    }
}

/// Gates may only open.
fn gates(new: &At<'_>, old: &At<'_>, errors: &mut FieldErrors) {
    for gate in new.items() {
        let name = gate.field("name").text();
        if !old.items().any(|known| known.field("name").text() == name) {
            gate.field("name").forbidden(
                errors,
                format!("only deletion is allowed, but found new scheduling gate '{name}'"),
            );
        }
    }
}

/// A gated pod may still be told where to run, as long as the choice only narrows.
fn node_selection(spec: &At<'_>, old: &At<'_>, errors: &mut FieldErrors) {
    let selector = spec.field("nodeSelector");
    for (key, value) in old.field("nodeSelector").entries() {
        if selector.value[key] != *value.value {
            selector.invalid(errors, "only additions are allowed (no deletions or mutations)");
        }
    }
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |spec: &At<'_>| {
        let affinity = spec.field("affinity").field("nodeAffinity");
        affinity.field(REQUIRED).field("nodeSelectorTerms").value.clone()
    };
    let (now, before) = (terms(spec), terms(old));
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    if before.is_null() {
        return;
    }
    let path = spec.field("affinity").field("nodeAffinity").field(REQUIRED).field("nodeSelectorTerms");
    let narrowed = |(now, before): (&Value, &Value)| {
        ["matchExpressions", "matchFields"].iter().all(|field| {
            let (now, before) = (list(&now[*field]), list(&before[*field]));
            before.iter().all(|rule| now.iter().any(|other| same(rule, other)))
        })
    };
    let (now, before) = (list(&now), list(&before));
    if now.len() != before.len() {
        path.invalid(errors, "no additions/deletions to non-empty NodeSelectorTerms list are allowed");
    } else if !now.iter().zip(&before).all(narrowed) {
        path.invalid(errors, "only additions are allowed (no deletions or mutations)");
    }
}

fn restore_node_affinity(spec: &mut Value, old: &Value) {
    let kept = old["affinity"]["nodeAffinity"].clone();
    if !kept.is_null() || spec["affinity"].get("nodeAffinity").is_some() {
        spec["affinity"]["nodeAffinity"] = kept;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Rule = fn(&Value, &Value, &mut FieldErrors);

    #[track_caller]
    fn check(rule: Rule, old: Value, new: Value, expected: &[&str]) {
        let mut errors = FieldErrors::default();
        rule(&json!({ "spec": new }), &json!({ "spec": old }), &mut errors);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let same =
            errors.len() == expected.len() && errors.iter().zip(expected).all(|(e, x)| e.starts_with(x));
        assert!(same, "{old} → {new}\ngives    {errors:#?}\nexpected {expected:#?}");
    }

    fn pod(changes: Value) -> Value {
        let mut spec = json!({"containers": [{"name": "a", "image": "i"}], "restartPolicy": "Always"});
        for (field, value) in changes.as_object().expect("object") {
            spec[field] = value.clone();
        }
        spec
    }

    #[test]
    fn what_may_change() {
        let check = |old: Value, new: Value, expected: &[&str]| check(validate, pod(old), pod(new), expected);
        check(json!({}), json!({"containers": [{"name": "a", "image": "j"}], "volumes": []}), &[]);
        check(
            json!({}),
            json!({"restartPolicy": "Never"}),
            &["spec: Forbidden: pod updates may not change fields other than"],
        );
        check(
            json!({}),
            json!({"containers": []}),
            &["spec.containers: Forbidden: pod updates may not add or remove"],
        );
        check(
            json!({}),
            json!({"containers": [{"name": "a", "image": "i", "tty": true}]}),
            &["spec: Forbidden"],
        );
        check(json!({}), json!({"nodeName": "n"}), &["spec: Forbidden"]);
        check(json!({}), json!({"activeDeadlineSeconds": 5}), &[]);
        check(
            json!({"activeDeadlineSeconds": 5}),
            json!({"activeDeadlineSeconds": 6}),
            &["spec.activeDeadlineSeconds: Invalid"],
        );
        check(
            json!({"activeDeadlineSeconds": 5}),
            json!({}),
            &["spec.activeDeadlineSeconds: Invalid value: null: must not"],
        );
        check(json!({"terminationGracePeriodSeconds": -1}), json!({"terminationGracePeriodSeconds": 1}), &[]);
        check(
            json!({"terminationGracePeriodSeconds": 5}),
            json!({"terminationGracePeriodSeconds": 1}),
            &["spec: Forbidden"],
        );
        let toleration =
            |seconds: i64| json!({"key": "k", "operator": "Exists", "tolerationSeconds": seconds});
        check(
            json!({"tolerations": [toleration(1)]}),
            json!({"tolerations": [{"operator": "Exists"}, toleration(2)]}),
            &[],
        );
        check(
            json!({"tolerations": [toleration(1)]}),
            json!({}),
            &["spec.tolerations: Forbidden: existing toleration"],
        );
    }

    #[test]
    fn gates_only_open() {
        let check = |old: Value, new: Value, expected: &[&str]| check(validate, pod(old), pod(new), expected);
        let gated = |changes: Value| {
            let mut spec = json!({"schedulingGates": [{"name": "g"}]});
            spec.as_object_mut().expect("object").extend(changes.as_object().expect("object").clone());
            spec
        };
        check(gated(json!({})), json!({}), &[]);
        check(
            json!({}),
            gated(json!({})),
            &["spec.schedulingGates[0].name: Forbidden: only deletion is allowed"],
        );
        check(gated(json!({})), gated(json!({"nodeSelector": {"a": "b"}})), &[]);
        check(json!({}), json!({"nodeSelector": {"a": "b"}}), &["spec: Forbidden"]);
        check(gated(json!({"nodeSelector": {"a": "b"}})), gated(json!({})), &["spec.nodeSelector: Invalid"]);
    }

    #[test]
    fn ephemeral_containers_stay() {
        let check = |old: Value, new: Value, expected: &[&str]| {
            let spec = |list: Value| pod(json!({ "ephemeralContainers": list }));
            check(validate_ephemeral_containers, spec(old), spec(new), expected);
        };
        check(json!([]), json!([{"name": "d"}]), &[]);
        check(
            json!([{"name": "d"}]),
            json!([]),
            &["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed"],
        );
        check(
            json!([{"name": "d"}]),
            json!([{"name": "d", "image": "x"}]),
            &["spec.ephemeralContainers: Forbidden: existing"],
        );
    }

    #[test]
    fn resizing_keeps_the_class() {
        let spec = |resources: Value| json!({"containers": [{"name": "a", "resources": resources}]});
        let check = |old: Value, new: Value, expected: &[&str]| {
            check(validate_resize, spec(old), spec(new), expected)
        };
        check(json!({"requests": {"cpu": "1"}}), json!({"requests": {"cpu": "2"}}), &[]);
        check(
            json!({"requests": {"cpu": "1"}}),
            json!({}),
            &[
                "spec: Invalid value",
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
            ],
        );
        check(
            json!({"requests": {"cpu": "1", "a/b": "1"}}),
            json!({"requests": {"cpu": "1", "a/b": "2"}}),
            &["spec.containers[0].resources.requests[a/b]: Forbidden: only cpu and memory"],
        );
    }
}
