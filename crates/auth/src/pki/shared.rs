//! The keys that all servers of a cluster share: those of its authority and of its service account tokens.
//!
//! They are kept in the cluster's store, where the first server puts them; every server has them in its directory
//! as well, beside the certificates of its own. Whoever can read the store can so issue certificates: it is to
//! be guarded like the keys themselves.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::authority::Authority;
use super::identity::Identity;
use super::{PkiError, file, public_key_pin, token_key_failed};
use crate::service_account_token::SigningKeys;

const AUTHORITY: &str = "ca.pem";
const TOKEN_KEY: &str = "service-account.pem";
const OLD_TOKEN_KEYS: &str = "service-account-old.pub";

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedKeys {
    authority: String,
    token_key: String,
    /// Public keys of tokens that were signed before the key was changed.
    #[serde(default)]
    old_token_keys: String,
}

impl SharedKeys {
    /// Those of a new cluster.
    pub fn generate(now: Timestamp) -> Result<Self, PkiError> {
        let token_key = SigningKeys::generate().map_err(token_key_failed)?.private_key_pem();
        Ok(SharedKeys {
            authority: Authority::create(now)?.to_text(),
            token_key,
            old_token_keys: String::new(),
        })
    }

    /// Those in a server's directory, if it has any.
    pub fn read(directory: &Path) -> Result<Option<Self>, PkiError> {
        let text = |name| file::read_secret(&directory.join(name));
        let (Some(authority), Some(token_key)) = (text(AUTHORITY)?, text(TOKEN_KEY)?) else {
            return Ok(None);
        };
        Ok(Some(SharedKeys {
            authority,
            token_key,
            old_token_keys: text(OLD_TOKEN_KEYS)?.unwrap_or_default(),
        }))
    }

    /// Puts them into a server's directory. One that has the authority of another cluster is left alone.
    pub fn adopt(&self, directory: &Path) -> Result<(), PkiError> {
        file::create_directory(directory)?;
        let path = directory.join(AUTHORITY);
        let ours = self.pin()?;
        if let Some(text) = file::read_secret(&path)?
            && pin(&text).is_ok_and(|there| there != ours)
        {
            return Err(PkiError::OtherCluster { path, directory: directory.to_owned() });
        }
        for (name, text) in [
            (TOKEN_KEY, &self.token_key),
            (OLD_TOKEN_KEYS, &self.old_token_keys),
            (AUTHORITY, &self.authority),
        ] {
            let path = directory.join(name);
            let there = file::read_secret(&path)?;
            if there.as_deref().unwrap_or_default() != text {
                file::write_atomically(&path, text, 0o600)?;
            }
        }
        Ok(())
    }

    /// The hash of the authority's key: what tells clusters apart.
    pub fn pin(&self) -> Result<String, PkiError> {
        pin(&self.authority).map_err(PkiError::Shared)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, PkiError> {
        serde_json::from_slice(bytes).map_err(|error| PkiError::Shared(error.to_string()))
    }
}

fn pin(authority: &str) -> Result<String, String> {
    let identity = Identity::parse(authority)?;
    public_key_pin(identity.certificate_der()).ok_or_else(|| "its certificate has no key".to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::tests::now;
    use super::*;

    #[test]
    fn a_second_server_adopts_the_keys_of_the_first() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert!(SharedKeys::read(first.path()).unwrap().is_none());
        let keys = SharedKeys::generate(now()).unwrap();
        for directory in [first.path(), second.path()] {
            let keys = SharedKeys::parse(&keys.to_bytes()).unwrap();
            keys.adopt(directory).unwrap();
            assert!(SharedKeys::read(directory).unwrap() == Some(keys));
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
                assert_eq!(mode, 0o600, "{:?}", entry.path());
            }
        }
    }

    #[test]
    fn another_clusters_directory_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let theirs = SharedKeys::generate(now()).unwrap();
        theirs.adopt(directory.path()).unwrap();
        let refused = SharedKeys::generate(now()).unwrap().adopt(directory.path());
        assert!(matches!(refused, Err(PkiError::OtherCluster { .. })));
        assert!(SharedKeys::read(directory.path()).unwrap() == Some(theirs));
        assert!(matches!(SharedKeys::parse(b"{}"), Err(PkiError::Shared(_))));
    }
}
