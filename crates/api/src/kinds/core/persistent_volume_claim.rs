//! PersistentVolumeClaim: asks for a piece of storage.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<PersistentVolumeClaim>(Plain).short(&["pvc"]).status()
}
