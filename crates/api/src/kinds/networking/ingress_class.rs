//! IngressClass: which controller serves an Ingress.

use k8s_openapi::api::networking::v1::IngressClass;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<IngressClass>(Plain).counted()
}
