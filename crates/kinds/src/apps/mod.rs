//! The apps group: controllers of long-running pods.

pub(super) mod controller_revision;
pub(super) mod daemon_set;
pub(super) mod deployment;
mod int_or_percent;
pub(super) mod replica_set;
pub(super) mod stateful_set;
