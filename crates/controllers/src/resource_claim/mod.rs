//! ResourceClaims: made for pods from templates, free again when nobody uses them.
//!
//! [`PodClaims`] makes the claims that a pod's templates describe and tells the pod their names; for a pod that came to
//! its node without the scheduler it also reserves claims that have devices. [`ClaimUsers`] takes pods that are over from
//! claims, and the devices from claims that nobody uses. Which devices a claim gets is the scheduler's to decide.

mod pod_claims;
#[cfg(test)]
mod tests;
mod users;

pub use pod_claims::PodClaims;
pub use users::ClaimUsers;

/// What the pod calls a claim that was made for it.
const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";
/// What claims with devices have, so that they cannot go before these are free.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
