//! MutatingAdmissionPolicy: changes requests with expressions.

use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicy;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<MutatingAdmissionPolicy>(Plain).category("api-extensions").counted()
}
