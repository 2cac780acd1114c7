//! certificates.k8s.io: certificates that the cluster signs or trusts.

pub(super) mod certificate_signing_request;
pub(super) mod cluster_trust_bundle;
pub(super) mod pod_certificate_request;
mod signer;
