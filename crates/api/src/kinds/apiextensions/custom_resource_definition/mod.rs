//! CustomResourceDefinition: a kind that users define.
//!
//! Judges the definition as far as names, versions and flags go; whether its schemas are structural is the
//! schema crate's to say.

mod validate;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::kinds::{fill, table};
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<CustomResourceDefinition>(Definitions)
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
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value) {
        note_stored_version(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate::definition(object, errors);
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
