//! DaemonSet: one pod on every node that fits.

use k8s_openapi::api::apps::v1::DaemonSet;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<DaemonSet>(Plain).short(&["ds"]).in_all().counted().status()
}
