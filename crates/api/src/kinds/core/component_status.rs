//! ComponentStatus: the health of control plane parts.

use k8s_openapi::api::core::v1::ComponentStatus;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ComponentStatus>(Plain).short(&["cs"]).only(&["get", "list"])
}
