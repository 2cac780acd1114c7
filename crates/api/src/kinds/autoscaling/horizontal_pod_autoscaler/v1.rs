//! autoscaling/v1.

use k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<HorizontalPodAutoscaler>(Plain)
        .short(&["hpa"])
        .in_all()
        .status()
        .stored_as("autoscaling", "v2")
}
