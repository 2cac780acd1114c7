//! ResourceSlice: devices that a node or network offers.

use k8s_openapi::api::resource::v1::ResourceSlice;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ResourceSlice>(Plain).counted()
}
