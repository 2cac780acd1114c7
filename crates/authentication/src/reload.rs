//! Follows the file of the configuration while the server runs. A file that is wrong changes nothing, and is told once.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::configuration::{AuthenticationSettings, ConfigurationError};
use crate::issuer::Issuers;

/// Files have no events where they are links that are exchanged, as those of mounted Secrets.
pub const LOOK: Duration = Duration::from_secs(2);

impl AuthenticationSettings {
    pub fn read(path: &Path, own_issuer: &str) -> Result<Self, ConfigurationError> {
        AuthenticationSettings::parse(&text(path)?, own_issuer)
    }
}

/// Takes over every change of the file's issuers. Never returns.
pub async fn follow(path: impl AsRef<Path>, own_issuer: String, issuers: Arc<Issuers>) {
    let path = path.as_ref();
    issuers.warm_up().await;
    let mut seen = text(path);
    loop {
        tokio::time::sleep(LOOK).await;
        let now = text(path);
        if now == seen {
            continue;
        }
        let parsed = now.clone().and_then(|text| AuthenticationSettings::parse(&text, &own_issuer));
        seen = now;
        match parsed {
            Ok(settings) => {
                issuers.set(settings);
                tracing::info!(file = %path.display(), "the authentication configuration was read anew");
                issuers.warm_up().await;
            }
            Err(error) => {
                tracing::error!(file = %path.display(), %error, "the authentication configuration stays as it was");
            }
        }
    }
}

pub fn text(path: &Path) -> Result<String, ConfigurationError> {
    std::fs::read_to_string(path).map_err(|error| ConfigurationError::Read(error.to_string()))
}
