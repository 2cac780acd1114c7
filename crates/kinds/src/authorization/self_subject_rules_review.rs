//! SelfSubjectRulesReview: what may I do?.

use k8s_openapi::api::authorization::v1::SelfSubjectRulesReview;

use crate::{Plain, Resource};

pub(crate) fn resource() -> Resource {
    Resource::of::<SelfSubjectRulesReview>(Plain).review()
}
