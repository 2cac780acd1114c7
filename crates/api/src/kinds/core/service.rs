//! Service: a name and address for a changing set of pods.

use k8s_openapi::api::core::v1::Service;

use crate::{NameRule, Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Service>(Plain).short(&["svc"]).in_all().named(NameRule::Label).status().with(
        "proxy",
        "ServiceProxyOptions",
        &["create", "delete", "get", "patch", "update"],
    )
}
