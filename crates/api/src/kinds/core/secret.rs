//! Secret: small confidential data.

use k8s_openapi::api::core::v1::Secret;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Secret>(Plain)
}
