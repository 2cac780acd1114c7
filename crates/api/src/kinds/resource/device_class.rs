//! DeviceClass: a kind of device that claims can ask for.

use k8s_openapi::api::resource::v1::DeviceClass;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<DeviceClass>(Plain).counted()
}
