//! CSIDriver: what a storage driver can do.

use k8s_openapi::api::storage::v1::CSIDriver;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<CSIDriver>(Plain).counted()
}
