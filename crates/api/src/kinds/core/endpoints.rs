//! Endpoints: the backends of a Service, all in one object.

use k8s_openapi::api::core::v1::Endpoints;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Endpoints>(Plain).short(&["ep"])
}
