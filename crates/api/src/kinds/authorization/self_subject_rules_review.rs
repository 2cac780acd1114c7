//! SelfSubjectRulesReview: what may I do?.

use k8s_openapi::api::authorization::v1::SelfSubjectRulesReview;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<SelfSubjectRulesReview>(Plain).only(&["create"])
}
