//! ResourceQuota: bounds the sum of what a namespace uses.

use k8s_openapi::api::core::v1::ResourceQuota;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ResourceQuota>(Plain).short(&["quota"]).status()
}
