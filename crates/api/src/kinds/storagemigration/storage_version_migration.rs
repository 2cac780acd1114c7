//! StorageVersionMigration: rewrites the stored objects of a resource.

use k8s_openapi::api::storagemigration::v1::StorageVersionMigration;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<StorageVersionMigration>(Plain).status()
}
