//! ClusterRoleBinding: who has a ClusterRole everywhere.

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;

use crate::{NameRule, Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ClusterRoleBinding>(Plain).named(NameRule::PathSegment)
}
