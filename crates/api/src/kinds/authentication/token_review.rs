//! TokenReview: whose token is this?.

use k8s_openapi::api::authentication::v1::TokenReview;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<TokenReview>(Plain).only(&["create"])
}
