//! Flags of the audit log, by the names that kube-apiserver gives them.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use minik8s_api::AuditSettings;

#[derive(Debug, Clone, Default, Args)]
pub struct AuditFlags {
    /// What is told of which request: a Policy of audit.k8s.io/v1. Without it there is no audit log
    #[arg(long, value_name = "FILE")]
    audit_policy_file: Option<PathBuf>,
    /// Write audit events into this file, one a line; - for standard output
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,
    /// Megabytes that an audit log has at most before it is put aside
    #[arg(long, value_name = "MB", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    audit_log_maxsize: u32,
    /// How many audit logs that were put aside are kept
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1000))]
    audit_log_maxbackup: u32,
    /// Days after which an audit log that was put aside is removed; 0 is never
    #[arg(long, value_name = "DAYS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    audit_log_maxage: u32,
    /// Send audit events to the server that this kubeconfig file names (https)
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_webhook_config_file: Option<PathBuf>,
}

impl AuditFlags {
    /// None where nothing is to be told.
    pub fn settings(&self) -> anyhow::Result<Option<AuditSettings>> {
        let Some(policy) = self.audit_policy_file.clone() else { return Ok(None) };
        if self.audit_log_path.is_none() && self.audit_webhook_config_file.is_none() {
            bail!(
                "--audit-policy-file: also say where events go: --audit-log-path or --audit-webhook-config-file"
            );
        }
        Ok(Some(AuditSettings {
            policy,
            log: self.audit_log_path.clone(),
            log_max_size: self.audit_log_maxsize,
            log_max_backup: self.audit_log_maxbackup,
            log_max_age: self.audit_log_maxage,
            webhook: self.audit_webhook_config_file.clone(),
        }))
    }
}
