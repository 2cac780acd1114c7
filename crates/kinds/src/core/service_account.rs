//! ServiceAccount: an identity for pods.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::{Value, json};

use crate::{Cell, Column, Resource, Strategy};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<ServiceAccount>(ServiceAccounts).short(&["sa"]).with("token", "TokenRequest", &["create"])
}

struct ServiceAccounts;

impl Strategy for ServiceAccounts {
    fn prepare_create(&self, object: &mut Value) {
        keep_secret_names(object);
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value) {
        keep_secret_names(object);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Secrets", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![table::name(object), json!(table::count(&object["secrets"])), table::age(object, now)]
    }
}

/// Secrets are of the account's own namespace: nothing but their names counts.
fn keep_secret_names(object: &mut Value) {
    for secret in fill::items(object, "secrets") {
        *secret = json!({ "name": secret["name"] });
    }
}
