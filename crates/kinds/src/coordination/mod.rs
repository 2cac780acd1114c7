//! coordination.k8s.io: leader election.

pub(super) mod lease;
