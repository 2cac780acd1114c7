//! ValidatingAdmissionPolicy: refuses requests with expressions.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ValidatingAdmissionPolicy>(Plain).category("api-extensions").status().counted()
}
