//! ServiceCIDR: a range that Service addresses come from.

use k8s_openapi::api::networking::v1::ServiceCIDR;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ServiceCIDR>(Plain).status()
}
