//! TLS as the API server speaks it, towards its clients and towards kubelets.
//!
//! Client certificates are optional. One that does not verify against the cluster's authority ends the
//! handshake, so nobody is taken for anonymous after having shown a bad certificate.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use super::identity::Identity;
use super::{Pki, PkiError};

/// What is shown on new connections; renewal swaps it while listeners and clients run.
pub struct LiveIdentity {
    current: RwLock<Arc<CertifiedKey>>,
}

impl LiveIdentity {
    pub fn new(identity: &Identity) -> Result<Self, PkiError> {
        LiveIdentity::below(identity, &[])
    }

    /// Also shows the authority's certificate, so that someone who knows only its hash can find it.
    pub(super) fn below(identity: &Identity, authority: &[u8]) -> Result<Self, PkiError> {
        Ok(LiveIdentity { current: RwLock::new(certified(identity, authority)?) })
    }

    pub fn swap(&self, identity: &Identity) -> Result<(), PkiError> {
        self.swap_below(identity, &[])
    }

    pub(super) fn swap_below(&self, identity: &Identity, authority: &[u8]) -> Result<(), PkiError> {
        let next = certified(identity, authority)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    pub fn current(&self) -> Arc<CertifiedKey> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for LiveIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveIdentity")
    }
}

impl ResolvesServerCert for LiveIdentity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl ResolvesClientCert for LiveIdentity {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// TLS 1.2 and 1.3, HTTP/2 preferred, session resumption on.
///
/// The roots stay right when the authority is renewed, because its key and name do not change then.
pub fn server_config(pki: &Pki) -> Result<ServerConfig, PkiError> {
    server_config_with(pki, &[])
}

/// The same for clients that may also show certificates of front proxies' authorities (DER). Whose a certificate is,
/// [`ClientAuthorities`] must then be asked: the handshake does not tell.
pub fn server_config_with(pki: &Pki, front_proxies: &[Vec<u8>]) -> Result<ServerConfig, PkiError> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = roots(pki)?;
    add(&mut roots, front_proxies)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(pki.serving_cert());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = ring::Ticketer::new()?;
    Ok(config)
}

/// Tells certificates of users from those of front proxies.
pub struct ClientAuthorities {
    users: Arc<dyn ClientCertVerifier>,
    front_proxies: Arc<dyn ClientCertVerifier>,
}

/// Both where a front proxy's authority is the cluster's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issued {
    pub is_users: bool,
    pub is_front_proxys: bool,
}

impl ClientAuthorities {
    pub fn new(pki: &Pki, front_proxies: &[Vec<u8>]) -> Result<Self, PkiError> {
        let mut others = RootCertStore::empty();
        add(&mut others, front_proxies)?;
        Ok(ClientAuthorities { users: verifier(roots(pki)?)?, front_proxies: verifier(others)? })
    }

    /// By whom the chain that a client showed was issued.
    pub fn issued(&self, chain: &[CertificateDer<'_>]) -> Issued {
        let Some((own, between)) = chain.split_first() else {
            return Issued { is_users: false, is_front_proxys: false };
        };
        let is_of = |verifier: &Arc<dyn ClientCertVerifier>| {
            verifier.verify_client_cert(own, between, UnixTime::now()).is_ok()
        };
        Issued { is_users: is_of(&self.users), is_front_proxys: is_of(&self.front_proxies) }
    }
}

fn verifier(roots: RootCertStore) -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
    let provider = Arc::new(ring::default_provider());
    Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?)
}

fn add(roots: &mut RootCertStore, authorities: &[Vec<u8>]) -> Result<(), PkiError> {
    for authority in authorities {
        roots.add(CertificateDer::from(authority.clone()))?;
    }
    Ok(())
}

/// How the API server calls kubelets: with its own client certificate, also when that is renewed, trusting
/// certificates of the cluster's authority.
pub fn kubelet_client_config(pki: &Pki) -> Result<ClientConfig, PkiError> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(pki)?)
        .with_client_cert_resolver(pki.kubelet_client());
    // A resumed session would be that of the certificate it began with.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn roots(pki: &Pki) -> Result<RootCertStore, PkiError> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(pki.ca_der()))?;
    Ok(roots)
}

fn certified(identity: &Identity, authority: &[u8]) -> Result<Arc<CertifiedKey>, PkiError> {
    let provider: CryptoProvider = ring::default_provider();
    let mut chain = vec![CertificateDer::from(identity.certificate_der().to_vec())];
    if !authority.is_empty() {
        chain.push(CertificateDer::from(authority.to_vec()));
    }
    Ok(Arc::new(CertifiedKey::from_der(chain, identity.key_der(), &provider)?))
}
