//! PriorityClass: how important a pod is.

use k8s_openapi::api::scheduling::v1::PriorityClass;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<PriorityClass>(Plain).short(&["pc"]).counted()
}
