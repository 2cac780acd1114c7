//! PodCertificateRequest: a kubelet asks for the certificate of a pod.

use k8s_openapi::api::certificates::v1::PodCertificateRequest;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<PodCertificateRequest>(Plain).status()
}
