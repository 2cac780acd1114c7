//! ReplicationController: the forerunner of ReplicaSet.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ReplicationController;
use serde_json::Value;

use crate::At;
use crate::pod_spec::{cells, template, warnings};
use crate::{Cell, Column, FieldErrors, LabelSelector, Resource, Strategy, metadata};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<ReplicationController>(ReplicationControllers)
        .short(&["rc"])
        .in_all()
        .counted()
        .status()
        .scale()
}

struct ReplicationControllers;

impl Strategy for ReplicationControllers {
    fn default(&self, object: &mut Value) {
        let labels = object["spec"]["template"]["metadata"]["labels"].clone();
        if labels.is_object() {
            fill_if_empty(&mut object["spec"], "selector", &labels);
            if let Some(metadata) = fill::object(object, "metadata") {
                fill_if_empty(metadata, "labels", &labels);
            }
        }
        let Some(spec) = object.get_mut("spec") else { return };
        fill::field(spec, "replicas", 1);
        template::fill_in(spec, "template");
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        spec.field("replicas").not_negative(errors);
        spec.field("minReadySeconds").not_negative(errors);
        let (selector, template) = (spec.field("selector"), spec.field("template"));
        if selector.need(errors) {
            metadata::validate_labels(selector.value, &selector.path, errors);
        }
        if !template.need(errors) {
            return;
        }
        if let Ok(parsed) = LabelSelector::from_map(selector.value.as_object()) {
            template::validate_labels_match(&template, &parsed, errors);
        }
        template::validate_lasting(&template, "ReplicationController", &[], errors);
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
        let selector = table::labels(&object["spec"]["selector"]);
        cells::replica_cells(object, selector, now)
    }
}

fn fill_if_empty(holder: &mut Value, field: &str, labels: &Value) {
    if let Some(map) = fill::map(holder, field)
        && map.is_empty()
    {
        *map = labels.as_object().cloned().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    fn controller(spec: Value) -> Value {
        let template = json!({
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        });
        let mut full = json!({ "template": template });
        full.as_object_mut().expect("object").extend(spec.as_object().expect("object").clone());
        json!({"metadata": {"name": "rc"}, "spec": full})
    }

    #[test]
    fn labels_and_selector_come_from_the_template() {
        let object = check::defaulted("replicationcontrollers", controller(json!({})));
        assert_eq!(object["spec"]["selector"], json!({"app": "a"}));
        assert_eq!(object["metadata"]["labels"], json!({"app": "a"}));
        assert_eq!(object["spec"]["replicas"], 1);
    }

    #[test]
    fn validation() {
        let check = |spec: Value, expected: &[&str]| {
            check::errors("replicationcontrollers", controller(spec), expected);
        };
        check(json!({}), &[]);
        check(json!({"replicas": -1}), &["spec.replicas: Invalid value: -1"]);
        check(json!({"selector": {"a": "b"}}), &["spec.template.metadata.labels: Invalid value"]);
        check(json!({"template": null}), &["spec.selector: Required value", "spec.template: Required value"]);
    }
}
