//! CustomResourceDefinition: a kind that users define.
//!
//! Its validation covers names, versions, schemas and printer columns. Serving the kind and cleaning up
//! behind it is the API server's.

mod validate;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::{Cell, Column, FieldErrors, JsonPath, Path, Resource, Strategy};
use crate::{fill, table};
use minik8s_api::CUSTOM_RESOURCE_CLEANUP as CLEANUP;

pub(crate) fn resource() -> Resource {
    Resource::of::<CustomResourceDefinition>(Definitions)
        .versioned_puts()
        .short(&["crd", "crds"])
        .category("api-extensions")
        .status()
        .counted()
}

struct Definitions;

impl Strategy for Definitions {
    fn default(&self, object: &mut Value) {
        let Some(spec) = fill::object(object, "spec") else { return };
        if let Some(names) = fill::object(spec, "names")
            && let Some(kind) = names["kind"].as_str().filter(|kind| !kind.is_empty()).map(str::to_owned)
        {
            fill::field(names, "singular", kind.to_lowercase());
            fill::field(names, "listKind", format!("{kind}List"));
        }
        if let Some(conversion) = fill::object(spec, "conversion") {
            fill::field(conversion, "strategy", "None");
        }
        if let Some(service) = spec.pointer_mut("/conversion/webhook/clientConfig/service") {
            fill::field(service, "port", 443);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] =
            json!({ "conditions": [], "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": [] });
        note_stored_version(object);
        hold_until_clean(object);
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value) {
        note_stored_version(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate::definition(object, errors);
        schemas(object, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validate::update(object, old, errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::created_columns())
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        table::created_row(object)
    }
}

/// A definition stays until its instances are gone.
fn hold_until_clean(object: &mut Value) {
    let Some(metadata) = fill::object(object, "metadata") else { return };
    fill::field(metadata, "finalizers", json!([]));
    if let Some(list) = metadata["finalizers"].as_array_mut()
        && !list.iter().any(|finalizer| finalizer == CLEANUP)
    {
        list.push(CLEANUP.into());
    }
}

/// Schemas must be structural, their validation rules must compile and be affordable, printer columns must have paths that can be read.
fn schemas(object: &Value, errors: &mut FieldErrors) {
    let versions = Path::new("spec").field("versions");
    for (i, version) in object["spec"]["versions"].as_array().into_iter().flatten().enumerate() {
        let at = versions.index(i);
        if let Some(schema) = version["schema"].get("openAPIV3Schema") {
            let (path, before) = (at.field("schema").field("openAPIV3Schema"), errors.iter().count());
            minik8s_schema::structural_errors(schema, &path, errors);
            // What is no schema declares nothing that rules could be checked against.
            if errors.iter().count() == before {
                minik8s_cel::rules::check(schema, &path, errors);
            }
        }
        for (j, column) in version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
            let path = column["jsonPath"].as_str().unwrap_or_default();
            if let Err(problem) = JsonPath::parse(path) {
                let at = at.field("additionalPrinterColumns").index(j).field("jsonPath");
                errors.invalid(at, path, problem.to_string());
            }
        }
    }
}

/// From now on there may be objects in the storage version.
fn note_stored_version(object: &mut Value) {
    let versions = object["spec"]["versions"].as_array();
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let Some(name) = stored.map(|version| version["name"].clone()).filter(Value::is_string) else { return };
    let Some(status) = fill::object(object, "status") else { return };
    fill::field(status, "storedVersions", json!([]));
    if let Some(versions) = status["storedVersions"].as_array_mut()
        && !versions.contains(&name)
    {
        versions.push(name);
    }
}

#[cfg(test)]
mod tests;
