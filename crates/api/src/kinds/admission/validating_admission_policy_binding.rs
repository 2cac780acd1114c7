//! ValidatingAdmissionPolicyBinding: where a ValidatingAdmissionPolicy applies.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ValidatingAdmissionPolicyBinding>(Plain).category("api-extensions").counted()
}
