//! StorageVersionMigration: rewrites the stored objects of a resource.

use k8s_openapi::api::storagemigration::v1::StorageVersionMigration;
use serde_json::{Value, json};

use crate::At;
use crate::{FieldErrors, Resource, Strategy, format};

pub(crate) fn resource() -> Resource {
    Resource::of::<StorageVersionMigration>(Migrations).status()
}

struct Migrations;

impl Strategy for Migrations {
    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let resource = At::root(object).field("spec").field("resource");
        resource.field("group").has_form(errors, format::subdomain);
        resource.field("resource").need_form(errors, format::label);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        At::root(object).field("spec").unchanged(errors, &At::root(old).field("spec"));
    }
}
