//! StorageClass: how volumes are made.

use jiff::Timestamp;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use crate::At;
use crate::fill;
use crate::table::{self, UNSET};
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 * 1024;
const DEFAULT_ANNOTATIONS: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub(crate) fn resource() -> Resource {
    Resource::of::<StorageClass>(StorageClasses).short(&["sc"])
}

struct StorageClasses;

impl Strategy for StorageClasses {
    fn default(&self, object: &mut Value) {
        fill::field(object, "reclaimPolicy", "Delete");
        fill::field(object, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        root.field("provisioner")
            .need_form(errors, |name| format::qualified_name(&name.to_ascii_lowercase()));
        validate_parameters(&root.field("parameters"), errors);
        root.field("reclaimPolicy").one_of(errors, &["Delete", "Retain"]);
        root.field("volumeBindingMode").need_one_of(errors, &["Immediate", "WaitForFirstConsumer"]);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object), At::root(old));
        for field in ["parameters", "provisioner"] {
            let (new, old) = (new.field(field), old.field(field));
            if new.value != old.value && (new.is_set() || old.is_set()) {
                new.forbidden(errors, format!("updates to {field} are forbidden."));
            }
        }
        for field in ["reclaimPolicy", "volumeBindingMode"] {
            new.field(field).unchanged(errors, &old.field(field));
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&[
            "Name",
            "Provisioner",
            "ReclaimPolicy",
            "VolumeBindingMode",
            "AllowVolumeExpansion",
            "Age",
        ]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let name = table::text_or(&table::name(object), "");
        let annotations = &object["metadata"]["annotations"];
        let is_default = DEFAULT_ANNOTATIONS.iter().any(|annotation| annotations[annotation] == "true");
        vec![
            if is_default { format!("{name} (default)") } else { name }.into(),
            table::text_or(&object["provisioner"], "").into(),
            table::text_or(&object["reclaimPolicy"], "Delete").into(),
            table::text_or(&object["volumeBindingMode"], UNSET).into(),
            json!(object["allowVolumeExpansion"] == true),
            table::age(object, now),
        ]
    }
}

/// Opaque to Kubernetes, but not without bound.
pub(super) fn validate_parameters(parameters: &At<'_>, errors: &mut FieldErrors) {
    if parameters.len() > MAX_PARAMETERS {
        errors.too_long(parameters.path.clone(), MAX_PARAMETERS);
        return;
    }
    let mut size = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            errors.invalid(parameters.path.clone(), key, "field can not be empty.");
        }
        size += key.len() + value.text().len();
    }
    if size > MAX_PARAMETER_BYTES {
        errors.too_long(parameters.path.clone(), MAX_PARAMETER_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        check::errors("storageclasses", json!({"provisioner": "minik8s.io/local"}), &[]);
        check::errors(
            "storageclasses",
            json!({"reclaimPolicy": "Recycle", "volumeBindingMode": "Later", "parameters": {"": "x"}}),
            &[
                "provisioner: Required value",
                "parameters: Invalid value: \"\": field can not be empty.",
                "reclaimPolicy: Unsupported value: \"Recycle\"",
                "volumeBindingMode: Unsupported value: \"Later\"",
            ],
        );
        check::update_errors(
            "storageclasses",
            json!({"provisioner": "a", "parameters": {"x": "1"}, "reclaimPolicy": "Retain"}),
            json!({"provisioner": "b"}),
            &[
                "parameters: Forbidden: updates to parameters are forbidden.",
                "provisioner: Forbidden: updates to provisioner are forbidden.",
                "reclaimPolicy: Invalid value: \"Retain\": field is immutable",
            ],
        );
    }

    #[test]
    fn columns() {
        let object = check::defaulted(
            "storageclasses",
            json!({"metadata": {"name": "a", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"}),
        );
        check::row(
            "storageclasses",
            object,
            &["a (default)", "p", "Delete", "Immediate", "false", "<unknown>"],
        );
    }
}
