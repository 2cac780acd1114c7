//! PodTemplate: a pod description kept for later.

use k8s_openapi::api::core::v1::PodTemplate;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<PodTemplate>(Plain).counted()
}
