//! SelfSubjectReview: who am I?.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;

use crate::{Plain, Resource};

pub(crate) fn resource() -> Resource {
    Resource::of::<SelfSubjectReview>(Plain).review()
}
