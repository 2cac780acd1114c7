//! MutatingAdmissionPolicyBinding: where a MutatingAdmissionPolicy applies.

use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicyBinding;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<MutatingAdmissionPolicyBinding>(Plain).category("api-extensions").counted()
}
