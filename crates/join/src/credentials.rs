//! The directory that makes a machine a node.
//!
//! | File | Holds |
//! |---|---|
//! | `ca.crt` | the cluster's authority |
//! | `client.pem` | certificate and key as whom the node calls the API |
//! | `serving.pem` | certificate and key of the node's own port |
//! | `joining.key` | the key of a request that is not answered yet |
//! | `servers` | where servers are, as the machine was told when it joined; one per line |
//! | `servers-learned` | where they are, as the cluster told later |
//!
//! All but `ca.crt` and the addresses are closed to others. Each is replaced in one step.

use std::path::{Path, PathBuf};

use minik8s_auth::pki::{Identity, file};
use minik8s_datadir::{RemovalError, remove_tree};
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::{JoinError, ServerAddress};

const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;

pub struct Credentials {
    directory: PathBuf,
}

impl Credentials {
    pub fn open(directory: &Path) -> Result<Self, JoinError> {
        file::create_directory(directory)?;
        Ok(Credentials { directory: directory.to_owned() })
    }

    /// The directory as it is, if it is.
    pub fn at(directory: &Path) -> Self {
        Credentials { directory: directory.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The identity in that file; `None` if there is none.
    pub fn identity(&self, name: &str) -> Result<Option<Identity>, JoinError> {
        let path = self.path(name);
        let Some(text) = file::read_secret(&path)? else { return Ok(None) };
        Identity::parse(&text).map(Some).map_err(|problem| JoinError::Damaged { path, problem })
    }

    pub fn keep_identity(&self, name: &str, identity: &Identity) -> Result<(), JoinError> {
        Ok(file::write_atomically(&self.path(name), &identity.to_text(), SECRET)?)
    }

    /// The authority's certificate in DER.
    pub fn authority(&self) -> Result<Option<Vec<u8>>, JoinError> {
        let path = self.path("ca.crt");
        let Ok(text) = std::fs::read(&path) else { return Ok(None) };
        let damaged = |problem: &str| JoinError::Damaged { path: path.clone(), problem: problem.to_owned() };
        let certificate =
            CertificateDer::from_pem_slice(&text).map_err(|_| damaged("it holds no certificate"))?;
        Ok(Some(certificate.to_vec()))
    }

    pub fn keep_authority(&self, pem: &str) -> Result<(), JoinError> {
        Ok(file::write_atomically(&self.path("ca.crt"), pem, PUBLIC)?)
    }

    pub fn servers(&self) -> Vec<ServerAddress> {
        self.addresses("servers")
    }

    pub fn keep_servers(&self, servers: &[ServerAddress]) -> Result<(), JoinError> {
        self.keep_addresses("servers", servers)
    }

    pub fn learned_servers(&self) -> Vec<ServerAddress> {
        self.addresses("servers-learned")
    }

    pub fn keep_learned_servers(&self, servers: &[ServerAddress]) -> Result<(), JoinError> {
        self.keep_addresses("servers-learned", servers)
    }

    fn addresses(&self, name: &str) -> Vec<ServerAddress> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    fn keep_addresses(&self, name: &str, servers: &[ServerAddress]) -> Result<(), JoinError> {
        let text: String = servers.iter().map(|server| format!("{server}\n")).collect();
        let path = self.path(name);
        // A machine whose disk is full must start with what it has.
        if std::fs::read_to_string(&path).is_ok_and(|kept| kept == text) {
            return Ok(());
        }
        Ok(file::write_atomically(&path, &text, PUBLIC)?)
    }

    /// The key of an unanswered request, or a new one: after a crash the same request is found again.
    pub fn joining_key(&self) -> Result<KeyPair, JoinError> {
        let path = self.path("joining.key");
        if let Some(key) = file::read_secret(&path)?.and_then(|text| KeyPair::from_pem(&text).ok()) {
            return Ok(key);
        }
        let key = KeyPair::generate().map_err(JoinError::Key)?;
        file::write_atomically(&path, &key.serialize_pem(), SECRET)?;
        Ok(key)
    }

    pub fn forget_joining_key(&self) {
        let _ = std::fs::remove_file(self.path("joining.key"));
    }

    /// The machine is no node any more.
    pub fn remove(self) -> Result<(), RemovalError> {
        let (parent, name) = (self.directory.parent(), self.directory.file_name());
        remove_tree(parent.unwrap_or(Path::new("/")), name.unwrap_or_default())
    }
}
