//! CustomResourceDefinition: a kind that users define.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<CustomResourceDefinition>(Plain)
        .short(&["crd", "crds"])
        .category("api-extensions")
        .status()
        .counted()
}
