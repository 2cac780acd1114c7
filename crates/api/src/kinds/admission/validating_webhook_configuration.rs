//! ValidatingWebhookConfiguration: web services that refuse requests.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ValidatingWebhookConfiguration>(Plain).category("api-extensions").counted()
}
