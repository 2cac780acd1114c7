//! Node: a machine that runs pods.

use k8s_openapi::api::core::v1::Node;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Node>(Plain).short(&["no"]).status().with(
        "proxy",
        "NodeProxyOptions",
        &["create", "delete", "get", "patch", "update"],
    )
}
