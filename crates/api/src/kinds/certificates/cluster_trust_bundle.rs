//! ClusterTrustBundle: root certificates to trust.

use k8s_openapi::api::certificates::v1::ClusterTrustBundle;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ClusterTrustBundle>(Plain)
}
