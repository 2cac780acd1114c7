//! authentication.k8s.io: who is asking.

pub(super) mod self_subject_review;
pub(super) mod token_review;
