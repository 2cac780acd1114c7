//! Event of events.k8s.io: the same objects as core Events under newer field names. Stored as core/v1.

use k8s_openapi::api::events::v1::Event;

use crate::{NameRule, Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Event>(Plain).short(&["ev"]).named(NameRule::PathSegment).stored_as("", "v1")
}
