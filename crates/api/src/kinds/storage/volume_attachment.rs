//! VolumeAttachment: a volume is, or is to be, attached to a node.

use k8s_openapi::api::storage::v1::VolumeAttachment;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<VolumeAttachment>(Plain).status()
}
