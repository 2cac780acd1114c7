//! IPAddress: an address that a Service has taken.

use k8s_openapi::api::networking::v1::IPAddress;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<IPAddress>(Plain).short(&["ip"])
}
