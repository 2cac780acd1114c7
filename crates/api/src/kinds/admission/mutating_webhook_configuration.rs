//! MutatingWebhookConfiguration: web services that change requests.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<MutatingWebhookConfiguration>(Plain).category("api-extensions").counted()
}
