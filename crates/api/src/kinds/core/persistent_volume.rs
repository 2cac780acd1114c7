//! PersistentVolume: a piece of storage.

use k8s_openapi::api::core::v1::PersistentVolume;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<PersistentVolume>(Plain).short(&["pv"]).status()
}
