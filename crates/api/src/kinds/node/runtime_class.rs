//! RuntimeClass: how a pod is run.

use k8s_openapi::api::node::v1::RuntimeClass;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<RuntimeClass>(Plain)
}
