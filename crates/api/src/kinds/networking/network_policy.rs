//! NetworkPolicy: which pods may talk to which.

use k8s_openapi::api::networking::v1::NetworkPolicy;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<NetworkPolicy>(Plain).short(&["netpol"]).counted()
}
