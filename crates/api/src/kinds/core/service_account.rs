//! ServiceAccount: an identity for pods.

use k8s_openapi::api::core::v1::ServiceAccount;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ServiceAccount>(Plain).short(&["sa"]).with("token", "TokenRequest", &["create"])
}
