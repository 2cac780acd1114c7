//! Where the API server tells who did what, as flags say it.

use std::path::PathBuf;

/// A policy, and at least one place to tell of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditSettings {
    /// A Policy of audit.k8s.io/v1.
    pub policy: PathBuf,
    /// `-` is standard output.
    pub log: Option<PathBuf>,
    /// Megabytes that a log has at most, and how many older ones are kept.
    pub log_max_size: u32,
    pub log_max_backup: u32,
    /// Days after which a log that was put aside is removed; 0 is never.
    pub log_max_age: u32,
    /// A kubeconfig file that says where the collector is.
    pub webhook: Option<PathBuf>,
}
