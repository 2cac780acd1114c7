//! Namespace: a room for names.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use crate::metadata::validate_finalizer;
use crate::{Cell, Column, FieldErrors, NameRule, Path, Resource, Strategy};
use crate::{fill, table};
use minik8s_meta::routing::{ALLOWED_HOSTS, host_patterns};

/// Every namespace carries its name as a label, so that selectors can name namespaces.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const FINALIZER: &str = "kubernetes";

pub(crate) fn resource() -> Resource {
    Resource { is_namespace: true, ..Resource::of::<Namespace>(Namespaces) }
        .short(&["ns"])
        .named(NameRule::Label)
        .only(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .status()
        .with("finalize", "Namespace", &["update"])
}

struct Namespaces;

impl Strategy for Namespaces {
    fn default(&self, object: &mut Value) {
        label(object);
        if let Some(status) = fill::object(object, "status") {
            fill::field(status, "phase", "Active");
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        label(object);
        object["status"] = json!({ "phase": "Active" });
        if let Some(spec) = fill::object(object, "spec") {
            fill::field(spec, "finalizers", json!([]));
            if let Some(finalizers) = spec["finalizers"].as_array_mut()
                && !finalizers.iter().any(|finalizer| finalizer == FINALIZER)
            {
                finalizers.push(json!(FINALIZER));
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let path = Path::new("spec").field("finalizers");
        for finalizer in object["spec"]["finalizers"].as_array().into_iter().flatten() {
            validate_finalizer(finalizer, &path, errors);
        }
        let allowed = object["metadata"]["annotations"][ALLOWED_HOSTS].as_str();
        if let Some(Err(part)) = allowed.map(host_patterns) {
            let path = Path::new("metadata").field("annotations").key(ALLOWED_HOSTS);
            errors.invalid(path, part, "must be a list of NAME, *.NAME or *, separated by commas");
        }
    }

    fn prepare_delete(&self, object: &mut Value) {
        object["status"]["phase"] = "Terminating".into();
    }

    fn is_held(&self, object: &Value) -> bool {
        object["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("status.phase", table::text_or(&object["status"]["phase"], ""))]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Status", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![table::name(object), object["status"]["phase"].clone(), table::age(object, now)]
    }
}

fn label(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    if name.as_str().is_some_and(|name| !name.is_empty())
        && let Some(metadata) = fill::object(object, "metadata")
        && let Some(labels) = fill::map(metadata, "labels")
    {
        labels.insert(NAME_LABEL.to_owned(), name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn a_new_namespace() {
        let mut object = check::defaulted("namespaces", json!({"metadata": {"name": "a"}}));
        check::find("namespaces").strategy.prepare_create(&mut object);
        assert_eq!(
            object,
            json!({
                "metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}},
                "status": {"phase": "Active"},
                "spec": {"finalizers": ["kubernetes"]},
            })
        );
    }

    #[test]
    fn finalizers() {
        check::errors(
            "namespaces",
            json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["own"]}}),
            &["spec.finalizers: Invalid value: \"own\": name is neither a standard finalizer name"],
        );
    }
}
