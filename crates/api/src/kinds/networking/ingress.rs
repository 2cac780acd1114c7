//! Ingress: HTTP routes from outside to Services.

use k8s_openapi::api::networking::v1::Ingress;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Ingress>(Plain).short(&["ing"]).status().counted()
}
