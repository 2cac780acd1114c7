//! ReplicaSet: keeps a number of equal pods.

use k8s_openapi::api::apps::v1::ReplicaSet;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ReplicaSet>(Plain).short(&["rs"]).in_all().counted().status().scale()
}
