//! Role: rights in a namespace.

use k8s_openapi::api::rbac::v1::Role;

use crate::{NameRule, Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Role>(Plain).named(NameRule::PathSegment)
}
