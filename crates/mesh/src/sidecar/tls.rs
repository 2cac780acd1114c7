//! mTLS between proxies: who is at the other end, proved by certificates of the mesh's authority alone.

use std::collections::HashMap;
use std::sync::Arc;

use minik8s_meta::mesh::Identity;
use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    version,
};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::protocol::Credentials;

/// By this a proxy knows TLS that is meant for it from TLS that is the pod's own business.
pub const PROTOCOL: &[u8] = b"minik8s/1";

/// All that one set of credentials is good for.
pub struct Tls {
    pub identity: Identity,
    pub server: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    /// By the service account (namespace and name) that is expected.
    clients: Mutex<HashMap<String, Arc<ClientConfig>>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Tls {
    pub fn new(credentials: &Credentials) -> Result<Self, String> {
        let text = |error: &dyn ToString| error.to_string();
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(credentials.certificates.as_bytes()).collect();
        let chain = chain.map_err(|error| text(&error))?;
        let [certificate, .., root] = &chain[..] else {
            return Err("two certificates are wanted".to_owned());
        };
        let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes()).map_err(|error| text(&error))?;
        let identity = identity(certificate).ok_or("the certificate names nobody")?;
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).map_err(|error| text(&error))?;
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let verifier = verifier.build().map_err(|error| text(&error))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|error| text(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.clone()], key.clone_key())
            .map_err(|error| text(&error))?;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        // Between two answers nothing may come: that is how an idle connection is known to be usable.
        server.send_tls13_tickets = 0;
        Ok(Tls {
            identity,
            server: Arc::new(server),
            certificate: certificate.clone(),
            key,
            roots,
            provider,
            clients: Mutex::default(),
        })
    }

    /// How to speak to a pod of that service account, and to nobody else.
    pub fn client(&self, account: &str) -> Option<Arc<ClientConfig>> {
        if let Some(known) = self.clients.lock().get(account) {
            return Some(known.clone());
        }
        let (namespace, name) = account.split_once('/')?;
        let expected = Expected {
            identity: Identity::new(&self.identity.domain, namespace, name),
            roots: self.roots.clone(),
            algorithms: self.provider.signature_verification_algorithms,
        };
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .ok()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(expected))
            .with_client_auth_cert(vec![self.certificate.clone()], self.key.clone_key())
            .ok()?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.enable_sni = false;
        config.resumption = Resumption::disabled();
        let config = Arc::new(config);
        self.clients.lock().insert(account.to_owned(), config.clone());
        Some(config)
    }

    /// Who has shown these, if it is somebody of this cluster.
    pub fn peer(&self, certificates: Option<&[CertificateDer<'_>]>) -> Option<Identity> {
        identity(certificates?.first()?).filter(|identity| identity.domain == self.identity.domain)
    }
}

/// Whom a certificate names: one URI of the one form, and nothing else.
fn identity(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let names = certificate.subject_alternative_name().ok()??;
    let [GeneralName::URI(uri)] = names.value.general_names[..] else { return None };
    uri.parse().ok()
}

/// The other end must be this one, whatever its address.
#[derive(Debug)]
struct Expected {
    identity: Identity,
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Expected {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        rustls::client::verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            self.algorithms.all,
        )?;
        match identity(end_entity) {
            Some(found) if found == self.identity => Ok(ServerCertVerified::assertion()),
            _ => Err(CertificateError::NotValidForName.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
pub mod tests;
