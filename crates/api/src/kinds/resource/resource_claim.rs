//! ResourceClaim: asks for devices.

use k8s_openapi::api::resource::v1::ResourceClaim;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ResourceClaim>(Plain).status()
}
