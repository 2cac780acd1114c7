//! RoleBinding: who has a role in a namespace.

use k8s_openapi::api::rbac::v1::RoleBinding;

use crate::{NameRule, Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<RoleBinding>(Plain).named(NameRule::PathSegment)
}
