//! ResourceClaimTemplate: makes a ResourceClaim for each pod.

use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ResourceClaimTemplate>(Plain)
}
