//! CertificateSigningRequest: asks a signer for a certificate.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<CertificateSigningRequest>(Plain).short(&["csr"]).status().with(
        "approval",
        "CertificateSigningRequest",
        &["get", "patch", "update"],
    )
}
