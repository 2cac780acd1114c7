//! LimitRange: bounds and defaults for what pods of a namespace ask for.

use k8s_openapi::api::core::v1::LimitRange;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<LimitRange>(Plain).short(&["limits"])
}
