//! ReplicationController: the forerunner of ReplicaSet.

use k8s_openapi::api::core::v1::ReplicationController;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ReplicationController>(Plain).short(&["rc"]).in_all().counted().status().scale()
}
