//! LocalSubjectAccessReview: may this user do that in a namespace?.

use k8s_openapi::api::authorization::v1::LocalSubjectAccessReview;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<LocalSubjectAccessReview>(Plain).only(&["create"])
}
