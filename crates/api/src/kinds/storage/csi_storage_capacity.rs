//! CSIStorageCapacity: how much storage is left where.

use k8s_openapi::api::storage::v1::CSIStorageCapacity;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<CSIStorageCapacity>(Plain)
}
