//! StorageClass: how volumes are made.

use k8s_openapi::api::storage::v1::StorageClass;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<StorageClass>(Plain).short(&["sc"])
}
