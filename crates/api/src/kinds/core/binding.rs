//! Binding: puts a pod on a node (the old way to post to pods/binding).

use k8s_openapi::api::core::v1::Binding;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Binding>(Plain).only(&["create"])
}
