//! CSINode: the storage drivers of a node.

use k8s_openapi::api::storage::v1::CSINode;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<CSINode>(Plain).status()
}
