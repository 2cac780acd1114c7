//! SubjectAccessReview: may this user do that?.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<SubjectAccessReview>(Plain).only(&["create"])
}
