//! `minik8s doctor`: what on this machine stands in the way of a node or a server, and what to do about it.
//!
//! It changes nothing: what must be tried (a bridge, a table) is tried in a network namespace that ends with the
//! try, and the disk is measured with a file that is removed. Each check is a function that returns findings.

mod clock;
mod credentials;
mod disk;
mod kernel;
mod network;
mod programs;

use std::fmt;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use minik8s_meta::Cidrs;

use crate::output;

#[derive(Debug, Args)]
pub struct DoctorFlags {
    /// The data dir of the server or node
    #[arg(long, value_name = "DIR", default_value = "/var/lib/minik8s")]
    data_dir: PathBuf,
    /// The server's port
    #[arg(long, value_name = "N", default_value_t = 6443)]
    port: u16,
    /// The node's port
    #[arg(long, value_name = "N", default_value_t = 10250)]
    node_port: u16,
    /// Range of pod addresses, or one of each family
    #[arg(long, value_name = "CIDR[,CIDR]", default_value = "10.244.0.0/16")]
    cluster_cidr: Cidrs,
    /// Range of virtual Service addresses, or one of each family
    #[arg(long, value_name = "CIDR[,CIDR]", default_value = "10.96.0.0/12")]
    service_cidr: Cidrs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    Fine,
    Warning,
    Broken,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    severity: Severity,
    text: String,
    /// What to do about it; empty if nothing need be done.
    remedy: String,
}

impl Finding {
    fn fine(text: impl Into<String>) -> Self {
        Finding { severity: Severity::Fine, text: text.into(), remedy: String::new() }
    }

    fn warning(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding { severity: Severity::Warning, text: text.into(), remedy: remedy.into() }
    }

    fn broken(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding { severity: Severity::Broken, text: text.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.severity {
            Severity::Fine => "ok  ",
            Severity::Warning => "warn",
            Severity::Broken => "FAIL",
        };
        write!(f, "{mark}  {}", self.text)?;
        if !self.remedy.is_empty() {
            write!(f, "\n      -> {}", self.remedy)?;
        }
        Ok(())
    }
}

/// Prints the findings; an error if something must be mended first.
pub fn run(flags: &DoctorFlags) -> anyhow::Result<()> {
    let mut broken = 0;
    let findings = programs::check(&flags.data_dir)
        .into_iter()
        .chain(kernel::check())
        .chain(network::check(flags))
        .chain(clock::check(&flags.data_dir))
        .chain(disk::check(&flags.data_dir))
        .chain(credentials::check(&flags.data_dir, jiff::Timestamp::now()));
    for finding in findings {
        broken += usize::from(finding.severity == Severity::Broken);
        output::line(&finding)?;
    }
    match broken {
        0 => Ok(()),
        1 => bail!("one finding must be mended first"),
        several => bail!("{several} findings must be mended first"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_as_they_are_told() {
        let check = |finding: Finding, expected: &str| assert_eq!(finding.to_string(), expected);
        check(Finding::warning("little room", "free some"), "warn  little room\n      -> free some");
        check(
            Finding::broken("no nft", "apt-get install nftables"),
            "FAIL  no nft\n      -> apt-get install nftables",
        );
    }
}
