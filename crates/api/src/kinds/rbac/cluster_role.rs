//! ClusterRole: rights in the whole cluster.

use k8s_openapi::api::rbac::v1::ClusterRole;

use crate::{NameRule, Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ClusterRole>(Plain).named(NameRule::PathSegment)
}
