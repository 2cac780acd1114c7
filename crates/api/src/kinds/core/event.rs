//! Event: something that happened to an object.

use k8s_openapi::api::core::v1::Event;

use crate::{NameRule, Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Event>(Plain).short(&["ev"]).named(NameRule::PathSegment)
}
