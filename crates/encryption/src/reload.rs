//! Follows the file of the configuration while the server runs: keys are exchanged without a restart.
//!
//! A file that is wrong, or whose key management service does not answer, changes nothing: what counted before goes on
//! counting, and the fault is told once.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::configuration::ConfigurationError;
use crate::rules::Rules;
use crate::store::EncryptedStore;

/// Files have no events where they are links that are exchanged, as those of mounted Secrets.
const LOOK: Duration = Duration::from_secs(2);

impl Rules {
    /// Of the configuration in this file.
    pub async fn read(path: &Path) -> Result<Rules, ConfigurationError> {
        Rules::of(&read(path)?).await
    }
}

fn read(path: &Path) -> Result<String, ConfigurationError> {
    std::fs::read_to_string(path).map_err(|error| ConfigurationError::Read(error.to_string()))
}

/// Takes over every change of the file. Never returns.
pub async fn follow(path: impl AsRef<Path>, store: Arc<EncryptedStore>) {
    let path = path.as_ref();
    let mut seen = state(path);
    let mut fault: Option<ConfigurationError> = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let now = state(path);
        // After a fault it is looked at again in any case: a service may answer now.
        if now == seen && fault.is_none() {
            continue;
        }
        seen = now;
        match Rules::read(path).await {
            Ok(rules) => {
                store.set_rules(rules);
                fault = None;
                if let Err(error) = store.renew_identity().await {
                    tracing::error!(%error, "the cluster's own keys stay encrypted as they were");
                }
                tracing::info!(file = %path.display(), "the encryption configuration was read anew");
            }
            Err(error) => {
                if fault.as_ref() != Some(&error) {
                    tracing::error!(file = %path.display(), %error, "the encryption configuration stays as it was");
                }
                fault = Some(error);
            }
        }
    }
}

/// What changes when somebody writes the file or puts another in its place.
fn state(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}
