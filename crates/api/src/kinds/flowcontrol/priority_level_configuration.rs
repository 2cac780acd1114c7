//! PriorityLevelConfiguration: a share of the server for a class of requests.

use k8s_openapi::api::flowcontrol::v1::PriorityLevelConfiguration;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<PriorityLevelConfiguration>(Plain).status().counted()
}
