//! DeviceTaintRule: taints devices from outside their driver.

use k8s_openapi::api::resource::v1::DeviceTaintRule;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<DeviceTaintRule>(Plain).status().counted()
}
