//! Finding the cluster's authority by the hash of its key.
//!
//! An API server shows its authority's certificate beside its own. The handshake succeeds only if that
//! certificate has the pinned key and the server's own was issued by it, so nothing is ever sent to, or
//! believed of, a server that is not the right one.

use std::sync::Arc;

use minik8s_auth::pki::public_key_pin;
use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::dial::Dialer;
use crate::{JoinError, ServerAddress};

/// The authority's certificate (DER), from the first server that shows the right one.
pub async fn find_authority(servers: &[ServerAddress], pin: &str) -> Result<Vec<u8>, JoinError> {
    let mut unreachable = Vec::new();
    let mut wrong = None;
    for server in servers {
        let verifier = Arc::new(PinVerifier::new(pin));
        let tls = ClientConfig::builder_with_provider(verifier.provider.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_no_client_auth();
        let dialed = Dialer::new(std::slice::from_ref(server), tls).dial().await;
        let found = std::mem::replace(&mut *verifier.found.lock(), Found::Nothing);
        match (dialed, found) {
            (Ok(_), Found::Authority(certificate)) => return Ok(certificate),
            (_, Found::Other) => wrong = Some(server.to_string()),
            (Err(error), _) => unreachable.push(error.0),
            (Ok(_), Found::Nothing) => unreachable.push(format!("{server}: it shows no authority")),
        }
    }
    match wrong {
        Some(server) => Err(JoinError::WrongAuthority { server }),
        None => Err(JoinError::Unreachable(unreachable.join("; "))),
    }
}

#[derive(Debug)]
enum Found {
    Nothing,
    /// A chain without the pinned key.
    Other,
    Authority(Vec<u8>),
}

#[derive(Debug)]
struct PinVerifier {
    pin: String,
    provider: Arc<CryptoProvider>,
    found: Mutex<Found>,
}

impl PinVerifier {
    fn new(pin: &str) -> Self {
        let provider = Arc::new(ring::default_provider());
        PinVerifier { pin: pin.to_owned(), provider, found: Mutex::new(Found::Nothing) }
    }
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_pinned = |shown: &&CertificateDer<'_>| public_key_pin(shown).as_deref() == Some(&*self.pin);
        let Some(authority) = chain.iter().find(is_pinned) else {
            *self.found.lock() = Found::Other;
            return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        };
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        let verified = verifier.verify_server_cert(certificate, &[], name, ocsp, now)?;
        *self.found.lock() = Found::Authority(authority.to_vec());
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
