//! Deployment: rolls a pod template out over ReplicaSets.

use k8s_openapi::api::apps::v1::Deployment;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Deployment>(Plain).short(&["deploy"]).in_all().counted().status().scale()
}
