//! SelfSubjectAccessReview: may I do that?.

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<SelfSubjectAccessReview>(Plain).only(&["create"])
}
