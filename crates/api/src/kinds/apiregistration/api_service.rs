//! APIService: a group and version, and who serves it.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use crate::{NameRule, Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<APIService>(Plain).category("api-extensions").named(NameRule::PathSegment).status()
}
