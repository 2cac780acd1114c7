//! Namespace: a room for names.

use k8s_openapi::api::core::v1::Namespace;

use crate::{NameRule, Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Namespace>(Plain)
        .short(&["ns"])
        .named(NameRule::Label)
        .only(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .status()
        .with("finalize", "Namespace", &["update"])
}
