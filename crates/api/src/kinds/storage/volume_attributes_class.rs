//! VolumeAttributesClass: changeable properties of volumes.

use k8s_openapi::api::storage::v1::VolumeAttributesClass;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<VolumeAttributesClass>(Plain).short(&["vac"])
}
