//! autoscaling/v2.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<HorizontalPodAutoscaler>(Plain).short(&["hpa"]).in_all().status()
}
