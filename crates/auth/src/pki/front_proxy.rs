//! As whom the API server calls extension API servers: a client certificate of an authority of its own.
//!
//! Extension servers believe whoever shows it what it says about users. So it must not be of the cluster's authority,
//! which also signs certificates that users ask for.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::authority::Authority;
use super::{CERTIFICATE_LIFETIME, LiveIdentity, PkiError, client, file};
use crate::pki::Identity;

/// The only name that extension servers let in.
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";
const FILE: &str = "front-proxy-ca.pem";

pub struct FrontProxy {
    authority: Authority,
    client: Arc<LiveIdentity>,
}

impl FrontProxy {
    /// Reads the authority from the directory, or makes it. The client's certificate is a new one at every start.
    pub fn load_or_create(directory: &Path, now: Timestamp) -> Result<Self, PkiError> {
        let path = directory.join(FILE);
        let damaged = |problem: String| PkiError::Damaged {
            path: path.clone(),
            problem,
            remedy: "Delete it and start again: extension API servers learn of the new one by themselves",
        };
        let identity = match file::read_secret(&path)? {
            Some(text) => Identity::parse(&text).map_err(damaged)?,
            None => {
                let identity = Authority::create_named("minik8s-front-proxy-ca", now)?;
                file::write_atomically(&path, &identity.to_text(), 0o600)?;
                identity
            }
        };
        let authority = Authority::from_identity(identity).map_err(damaged)?;
        let identity = authority.issue(&client(FRONT_PROXY_CLIENT, &[], CERTIFICATE_LIFETIME), now)?;
        Ok(FrontProxy { client: Arc::new(LiveIdentity::new(&identity)?), authority })
    }

    /// What extension servers must trust.
    pub fn ca_pem(&self) -> String {
        self.authority.certificate_pem()
    }

    pub fn client(&self) -> Arc<LiveIdentity> {
        self.client.clone()
    }

    /// Shows a new certificate on new connections.
    pub fn renew(&self, now: Timestamp) -> Result<(), PkiError> {
        let profile = client(FRONT_PROXY_CLIENT, &[], CERTIFICATE_LIFETIME);
        self.client.swap(&self.authority.issue(&profile, now)?)
    }
}
