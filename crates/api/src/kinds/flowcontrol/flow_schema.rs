//! FlowSchema: sorts requests into priority levels.

use k8s_openapi::api::flowcontrol::v1::FlowSchema;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<FlowSchema>(Plain).status().counted()
}
