//! The cluster's keys and certificates: made at first start, kept in one directory, renewed in time.
//!
//! | File | Holds |
//! |---|---|
//! | `ca.pem` | certificate and key of the authority |
//! | `ca.crt` | its certificate alone, for clients |
//! | `serving.pem` | what the API server shows to clients |
//! | `admin.pem` | the administrator's client identity |
//! | `kubelet-client.pem` | as whom the API server calls kubelets |
//! | `front-proxy-ca.pem` | the authority of the client that calls extension API servers |
//! | `service-account.pem` | the key that signs service account tokens |
//! | `service-account-old.pub` | public keys of tokens signed before a rotation |
//!
//! Each file is replaced in one atomic step and none depends on two being written together, so a crash at
//! any moment leaves a state that the next start completes. A file that is there but unreadable is never
//! overwritten: that is the operator's to decide. Nothing here opens a socket or reads the clock.

mod authority;
mod csr;
#[cfg(test)]
mod csr_tests;
mod error;
pub mod file;
mod front_proxy;
mod identity;
mod kubeconfig;
mod mesh;
mod names;
mod pem;
mod pin;
mod serving;
mod shared;
mod subject;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use jiff::{SignedDuration, Timestamp};

pub use authority::Usage;
pub use csr::{Csr, CsrError, Signer};
pub use error::PkiError;
pub use front_proxy::{FRONT_PROXY_CLIENT, FrontProxy};
pub use identity::Identity;
pub use kubeconfig::{Kubeconfig, write_kubeconfig};
pub use names::{AltNames, ServingNames};
pub use pem::encode as encode_pem;
pub use pin::public_key_pin;
pub use serving::{
    ClientAuthorities, Issued, LiveIdentity, kubelet_client_config, server_config, server_config_with,
};
pub use shared::SharedKeys;
pub use subject::Subject;

use self::authority::{Authority, Profile};
use crate::service_account_token::SigningKeys;
use crate::user::MASTERS;

/// The name as which the API server calls kubelets; they let nobody else in.
pub const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

const CERTIFICATE_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 365);
const RESTORE_AUTHORITY: &str = "Restore it from a backup, or delete the whole directory to start with a new \
     authority (every node and kubeconfig then needs new credentials)";
const DELETE_TO_REISSUE: &str = "Delete it and start again: it will be issued anew";
const RESTORE_TOKEN_KEY: &str = "Restore it from a backup, or delete it and start again: a new key will be \
     made, and service account tokens signed so far stop working";

/// All of the cluster's keys and certificates. Share it in an `Arc`; renewal needs no `&mut`.
pub struct Pki {
    directory: PathBuf,
    current: RwLock<Arc<Credentials>>,
    serving: Arc<LiveIdentity>,
    kubelet_client: Arc<LiveIdentity>,
    /// Held while files are written, so that two renewals cannot mix.
    renewal: Mutex<ServingNames>,
}

/// One consistent set of credentials.
struct Credentials {
    authority: Authority,
    serving: Identity,
    admin: Identity,
    kubelet_client: Identity,
    token_keys: Arc<SigningKeys>,
}

impl Pki {
    /// Reads the directory, makes what is missing and renews what is due.
    pub fn load_or_create(directory: &Path, names: &ServingNames, now: Timestamp) -> Result<Self, PkiError> {
        file::create_directory(directory)?;
        let (credentials, _) = Credentials::load(directory, names, now)?;
        let serving =
            Arc::new(LiveIdentity::below(&credentials.serving, credentials.authority.certificate_der())?);
        let kubelet_client = Arc::new(LiveIdentity::new(&credentials.kubelet_client)?);
        Ok(Pki {
            directory: directory.to_owned(),
            current: RwLock::new(Arc::new(credentials)),
            serving,
            kubelet_client,
            renewal: Mutex::new(names.clone()),
        })
    }

    /// Renews what has less than a third of its life left; call it every few hours. `true` if anything
    /// changed. New connections see a new serving certificate at once.
    pub fn renew_if_due(&self, now: Timestamp) -> Result<bool, PkiError> {
        self.renew(None, now)
    }

    /// Serves under other names from now on, e.g. when the host got a new address.
    pub fn set_names(&self, names: &ServingNames, now: Timestamp) -> Result<bool, PkiError> {
        self.renew(Some(names), now)
    }

    /// Uses what is in the directory now, e.g. after [`SharedKeys::adopt`].
    pub fn reload(&self, now: Timestamp) -> Result<(), PkiError> {
        let names = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        let (credentials, _) = Credentials::load(&self.directory, &names, now)?;
        self.take(credentials)
    }

    fn take(&self, credentials: Credentials) -> Result<(), PkiError> {
        self.serving.swap_below(&credentials.serving, credentials.authority.certificate_der())?;
        self.kubelet_client.swap(&credentials.kubelet_client)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(credentials);
        Ok(())
    }

    fn renew(&self, new_names: Option<&ServingNames>, now: Timestamp) -> Result<bool, PkiError> {
        let mut names = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        let (credentials, changed) = Credentials::load(&self.directory, new_names.unwrap_or(&names), now)?;
        if let Some(new_names) = new_names {
            *names = new_names.clone();
        }
        if changed {
            self.take(credentials)?;
        }
        Ok(changed)
    }

    fn current(&self) -> Arc<Credentials> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where the files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The authority's certificate: what clients must trust (`kube-root-ca.crt`, kubeconfigs).
    pub fn ca_pem(&self) -> String {
        self.current().authority.certificate_pem()
    }

    pub fn ca_der(&self) -> Vec<u8> {
        self.current().authority.certificate_der().to_vec()
    }

    /// What a join token says of the authority; see [`public_key_pin`].
    pub fn ca_pin(&self) -> String {
        public_key_pin(self.current().authority.certificate_der()).unwrap_or_default()
    }

    /// The names and addresses that only an API server may show.
    pub fn serving_names(&self) -> AltNames {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner).alt_names()
    }

    /// What the TLS listener shows; it follows renewals.
    pub fn serving_cert(&self) -> Arc<LiveIdentity> {
        self.serving.clone()
    }

    /// As whom the API server calls kubelets; it follows renewals.
    pub(super) fn kubelet_client(&self) -> Arc<LiveIdentity> {
        self.kubelet_client.clone()
    }

    /// `(certificate, key)` in PEM, as whom the API server calls kubelets.
    pub fn kubelet_client_pem(&self) -> (String, String) {
        let current = self.current();
        (current.kubelet_client.certificate_pem(), current.kubelet_client.key_pem())
    }

    /// The keys of service account tokens.
    pub fn token_keys(&self) -> Arc<SigningKeys> {
        self.current().token_keys.clone()
    }

    /// From now on signs tokens with a new key; tokens signed with the old one stay valid until they expire.
    pub fn rotate_token_key(&self, now: Timestamp) -> Result<(), PkiError> {
        let names = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.token_keys();
        // The old public key first: after a crash between the two it is merely listed twice.
        let listed = self.directory.join("service-account-old.pub");
        file::write_atomically(&listed, &old.public_keys_pem(), 0o600)?;
        let next = SigningKeys::generate().map_err(token_key_failed)?;
        file::write_atomically(&self.directory.join("service-account.pem"), &next.private_key_pem(), 0o600)?;
        let (credentials, _) = Credentials::load(&self.directory, &names, now)?;
        self.take(credentials)
    }

    /// A new client certificate: `(certificate, key)` in PEM.
    pub fn issue_client(
        &self,
        user: &str,
        groups: &[&str],
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Result<(String, String), PkiError> {
        let profile = client(user, groups, lifetime);
        let identity = self.current().authority.issue(&profile, now)?;
        Ok((identity.certificate_pem(), identity.key_pem()))
    }

    /// A new serving certificate with its key, e.g. for a kubelet on this host.
    pub fn issue_server(
        &self,
        subject: Subject,
        alt_names: AltNames,
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Result<Identity, PkiError> {
        let profile = Profile { subject, alt_names, usage: Usage::Server, lifetime };
        self.current().authority.issue(&profile, now)
    }

    /// The administrator's kubeconfig, all inline, with a context for each of the other servers.
    pub fn admin_kubeconfig(&self, server_url: &str, other_urls: &[&str]) -> String {
        let current = self.current();
        Kubeconfig {
            server_url,
            other_urls,
            user: "kubernetes-admin",
            ca_pem: &current.authority.certificate_pem(),
            certificate_pem: &current.admin.certificate_pem(),
            key_pem: &current.admin.key_pem(),
        }
        .to_yaml()
    }

    /// A kubeconfig for a new client certificate of this user.
    pub fn kubeconfig_for(
        &self,
        user: &str,
        groups: &[&str],
        server_url: &str,
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Result<String, PkiError> {
        let (certificate, key) = self.issue_client(user, groups, lifetime, now)?;
        let ca = self.ca_pem();
        let (certificate_pem, key_pem) = (&*certificate, &*key);
        let config = Kubeconfig { server_url, other_urls: &[], user, ca_pem: &ca, certificate_pem, key_pem };
        Ok(config.to_yaml())
    }

    /// Signs an approved CertificateSigningRequest: the certificate in PEM.
    ///
    /// `seconds` is `spec.expirationSeconds`; ten minutes at least, a year (a day, for the mesh) at most and by default.
    pub fn sign_csr(
        &self,
        request: &str,
        signer: Signer,
        usages: &[String],
        seconds: Option<i32>,
        now: Timestamp,
    ) -> Result<String, CsrError> {
        let request = Csr::parse(request)?;
        request.check(signer, usages)?;
        if signer == Signer::Mesh {
            return mesh::sign(self.current().authority.identity(), &request, seconds, now);
        }
        let longest = CERTIFICATE_LIFETIME;
        let asked = seconds.map_or(longest, |s| SignedDuration::from_secs(s.into()));
        let lifetime = asked.clamp(SignedDuration::from_mins(10), longest);
        request.sign(&self.current().authority, signer.usage(), lifetime, now)
    }
}

impl Credentials {
    /// Also says whether any file was written.
    fn load(directory: &Path, names: &ServingNames, now: Timestamp) -> Result<(Self, bool), PkiError> {
        let (authority, mut changed) = load_authority(directory, now)?;
        let token_keys = Arc::new(load_token_keys(directory, &mut changed)?);
        let mut leaf =
            |name, profile| load_or_issue(&directory.join(name), &authority, &profile, now, &mut changed);
        let serving = leaf(
            "serving.pem",
            Profile {
                subject: Subject::new("kube-apiserver", &[]),
                alt_names: names.alt_names(),
                usage: Usage::Server,
                lifetime: CERTIFICATE_LIFETIME,
            },
        )?;
        let admin = leaf("admin.pem", client("kubernetes-admin", &[MASTERS], CERTIFICATE_LIFETIME))?;
        let kubelet_client =
            leaf("kubelet-client.pem", client(KUBELET_CLIENT, &[MASTERS], CERTIFICATE_LIFETIME))?;
        Ok((Credentials { authority, serving, admin, kubelet_client, token_keys }, changed))
    }
}

fn client(user: &str, groups: &[&str], lifetime: SignedDuration) -> Profile {
    let subject = Subject::new(user, groups);
    Profile { subject, alt_names: AltNames::default(), usage: Usage::Client, lifetime }
}

fn load_authority(directory: &Path, now: Timestamp) -> Result<(Authority, bool), PkiError> {
    let path = directory.join("ca.pem");
    file::remove_leftover(&path)?;
    let damaged = |problem| PkiError::Damaged { path: path.clone(), problem, remedy: RESTORE_AUTHORITY };
    let mut changed = false;
    let identity = match file::read_secret(&path)? {
        Some(text) => Identity::parse(&text).map_err(damaged)?,
        None if directory.join("serving.pem").exists() => {
            return Err(PkiError::AuthorityMissing { path, directory: directory.to_owned() });
        }
        None => {
            changed = true;
            let identity = Authority::create(now)?;
            file::write_atomically(&path, &identity.to_text(), 0o600)?;
            identity
        }
    };
    let mut authority = Authority::from_identity(identity).map_err(damaged)?;
    if authority.identity().is_due(now) {
        tracing::info!(path = %path.display(), "renewing the cluster's authority with the same key");
        let renewed = authority.renew(now)?;
        file::write_atomically(&path, &renewed.to_text(), 0o600)?;
        authority = Authority::from_identity(renewed).map_err(damaged)?;
        changed = true;
    }
    let public = directory.join("ca.crt");
    let text = authority.certificate_pem();
    if std::fs::read_to_string(&public).ok().as_ref() != Some(&text) {
        file::write_atomically(&public, &text, 0o644)?;
    }
    Ok((authority, changed))
}

fn load_or_issue(
    path: &Path,
    authority: &Authority,
    profile: &Profile,
    now: Timestamp,
    changed: &mut bool,
) -> Result<Identity, PkiError> {
    file::remove_leftover(path)?;
    if let Some(text) = file::read_secret(path)? {
        let identity = Identity::parse(&text).map_err(|problem| PkiError::Damaged {
            path: path.to_owned(),
            problem,
            remedy: DELETE_TO_REISSUE,
        })?;
        match identity.reason_to_reissue(profile, authority.certificate_der(), now) {
            None => return Ok(identity),
            Some(reason) => tracing::info!(path = %path.display(), reason, "issuing a new certificate"),
        }
    }
    let identity = authority.issue(profile, now)?;
    file::write_atomically(path, &identity.to_text(), 0o600)?;
    *changed = true;
    Ok(identity)
}

fn load_token_keys(directory: &Path, changed: &mut bool) -> Result<SigningKeys, PkiError> {
    let path = directory.join("service-account.pem");
    file::remove_leftover(&path)?;
    let mut keys = match file::read_secret(&path)? {
        Some(text) => SigningKeys::from_private_key_pem(&text).map_err(|problem| PkiError::Damaged {
            path: path.clone(),
            problem,
            remedy: RESTORE_TOKEN_KEY,
        })?,
        None => {
            let keys = SigningKeys::generate().map_err(token_key_failed)?;
            file::write_atomically(&path, &keys.private_key_pem(), 0o600)?;
            *changed = true;
            keys
        }
    };
    let old = directory.join("service-account-old.pub");
    file::remove_leftover(&old)?;
    if let Some(text) = file::read_secret(&old)? {
        keys.add_old_public_keys(&text).map_err(|problem| PkiError::Damaged {
            path: old,
            problem,
            remedy: "Restore it from a backup, or delete it and start again: tokens signed before the last \
                     change of key then stop working",
        })?;
    }
    Ok(keys)
}

fn token_key_failed(source: rcgen::Error) -> PkiError {
    PkiError::Issue { subject: "service account tokens".to_owned(), source }
}
