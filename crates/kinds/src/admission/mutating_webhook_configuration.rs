//! MutatingWebhookConfiguration: web services that change requests.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use serde_json::Value;

use super::webhooks;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<MutatingWebhookConfiguration>(Configurations)
        .versioned_puts()
        .category("api-extensions")
        .counted()
}

struct Configurations;

impl Strategy for Configurations {
    fn default(&self, object: &mut Value) {
        webhooks::default(object, true);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        webhooks::validate(object, errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(webhooks::columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        webhooks::row(object, now)
    }
}
