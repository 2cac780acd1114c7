//! The job's output as it grows on the cluster, printed here, so that the pod's log is the job's output.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use crate::remote::{Failure, Ssh, TAIL};

const LIMIT: Duration = Duration::from_secs(30);
/// As much as one call gives.
const FULL: usize = 262_144;

/// How much of each file was printed.
#[derive(Default)]
pub struct Output {
    printed: BTreeMap<String, u64>,
}

impl Output {
    /// Prints what is new; says whether anything was.
    pub async fn follow(&mut self, ssh: &Ssh, dir: &str, files: &[String]) -> Result<bool, Failure> {
        let mut grew = false;
        for file in files {
            loop {
                let offset = self.printed.entry(file.clone()).or_default();
                let text = ssh.run(TAIL, &[dir, file, &offset.to_string()], LIMIT).await?;
                *offset += text.len() as u64;
                grew |= !text.is_empty();
                Self::print(&text);
                if text.len() < FULL {
                    break;
                }
            }
        }
        Ok(grew)
    }

    /// A log that nobody can take is no reason to leave the job alone.
    pub fn print(text: &[u8]) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text).and_then(|()| out.flush());
    }
}
