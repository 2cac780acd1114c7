//! StatefulSet: pods with an identity and storage of their own.

use k8s_openapi::api::apps::v1::StatefulSet;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<StatefulSet>(Plain).short(&["sts"]).in_all().counted().status().scale()
}
