//! ReplicaSet: keeps a number of equal pods.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::Value;

use crate::At;
use crate::pod_spec::{cells, template, warnings};
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<ReplicaSet>(ReplicaSets).short(&["rs"]).in_all().counted().status().scale()
}

struct ReplicaSets;

impl Strategy for ReplicaSets {
    fn default(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        fill::field(spec, "replicas", 1);
        template::fill_in(spec, "template");
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        spec.field("replicas").not_negative(errors);
        spec.field("minReadySeconds").not_negative(errors);
        template::validate_selector(&spec, "ReplicaSet", errors);
        template::validate_lasting(&spec.field("template"), "ReplicaSet", &[], errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        template::validate_selector_kept(object, old, errors);
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        warnings::of_workload(object)
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("status.replicas", object["status"]["replicas"].as_i64().unwrap_or(0).to_string())]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(cells::replica_columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let selector = table::selector(&object["spec"]["selector"]);
        cells::replica_cells(object, selector, now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    fn replica_set(spec: Value) -> Value {
        let template = json!({
            "metadata": {"creationTimestamp": null, "labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        });
        let mut full = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template});
        full.as_object_mut().expect("object").extend(spec.as_object().expect("object").clone());
        json!({"metadata": {"name": "rs", "creationTimestamp": "2026-01-01T11:55:00Z"}, "spec": full})
    }

    #[test]
    fn defaults() {
        let object = check::defaulted("replicasets", replica_set(json!({})));
        assert_eq!(object["spec"]["replicas"], 1);
        assert_eq!(object["spec"]["template"]["spec"]["restartPolicy"], "Always");
        assert_eq!(object["spec"]["template"]["metadata"], json!({"labels": {"app": "a"}}));
    }

    #[test]
    fn validation() {
        let check =
            |spec: Value, expected: &[&str]| check::errors("replicasets", replica_set(spec), expected);
        check(json!({}), &[]);
        check(
            json!({"replicas": -1}),
            &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        );
        check(json!({"selector": null}), &["spec.selector: Required value"]);
        check(
            json!({"selector": {}}),
            &["spec.selector: Invalid value: {}: empty selector is invalid for replicaset"],
        );
        check(
            json!({"selector": {"matchLabels": {"app": "b"}}}),
            &[
                "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
            ],
        );
        check(
            json!({"template": {"metadata": {"labels": {"app": "a"}}, "spec": {"restartPolicy": "Never",
                "activeDeadlineSeconds": 1, "containers": [{"name": "c"}]}}}),
            &[
                "spec.template.spec.containers[0].image: Required value",
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden",
            ],
        );
    }

    #[test]
    fn updates() {
        let other = json!({"selector": {"matchLabels": {"app": "b"}}});
        check::update_errors(
            "replicasets",
            replica_set(other),
            replica_set(json!({})),
            &["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable"],
        );
    }

    #[test]
    fn row() {
        let mut object = replica_set(json!({"replicas": 3}));
        object["status"] = json!({"replicas": 2, "readyReplicas": 1});
        check::row("replicasets", object, &["rs", "3", "2", "1", "5m", "c", "i:1", "app=a"]);
    }
}
