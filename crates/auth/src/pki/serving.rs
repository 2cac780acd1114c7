//! TLS as the API server speaks it, towards its clients and towards kubelets.
//!
//! Client certificates are optional. One that does not verify against the cluster's authority ends the
//! handshake, so nobody is taken for anonymous after having shown a bad certificate.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;

use super::identity::Identity;
use super::{Pki, PkiError};

/// The certificate for new connections; renewal swaps it while the listener runs.
pub struct ServingCert {
    current: RwLock<Arc<CertifiedKey>>,
}

impl ServingCert {
    pub(super) fn new(identity: &Identity) -> Result<Self, PkiError> {
        Ok(ServingCert { current: RwLock::new(certified(identity)?) })
    }

    pub(super) fn swap(&self, identity: &Identity) -> Result<(), PkiError> {
        let next = certified(identity)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    pub fn current(&self) -> Arc<CertifiedKey> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for ServingCert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServingCert")
    }
}

impl ResolvesServerCert for ServingCert {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

/// TLS 1.2 and 1.3, HTTP/2 preferred, session resumption on.
///
/// The roots stay right when the authority is renewed, because its key and name do not change then.
pub fn server_config(pki: &Pki) -> Result<ServerConfig, PkiError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pki)?), provider.clone())
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

/// How the API server calls kubelets: with its own client certificate, trusting certificates of the cluster's
/// authority. Make a new one after a renewal.
pub fn kubelet_client_config(pki: &Pki) -> Result<ClientConfig, PkiError> {
    let identity = &pki.current().kubelet_client;
    let chain = vec![CertificateDer::from(identity.certificate_der().to_vec())];
    Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(pki)?)
        .with_client_auth_cert(chain, identity.key_der())?)
}

fn roots(pki: &Pki) -> Result<RootCertStore, PkiError> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(pki.ca_der()))?;
    Ok(roots)
}

fn certified(identity: &Identity) -> Result<Arc<CertifiedKey>, PkiError> {
    let provider: CryptoProvider = ring::default_provider();
    let chain = vec![CertificateDer::from(identity.certificate_der().to_vec())];
    Ok(Arc::new(CertifiedKey::from_der(chain, identity.key_der(), &provider)?))
}
