//! EndpointSlice: some of the backends of a Service.

use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<EndpointSlice>(Plain).counted()
}
