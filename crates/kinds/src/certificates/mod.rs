//! certificates.k8s.io: certificates that the cluster signs or trusts.

mod certificate;
pub(super) mod certificate_signing_request;
pub(super) mod cluster_trust_bundle;
pub(super) mod pod_certificate_request;
mod request_signature;
pub(crate) mod signer;
