//! How backends are known that Gateways speak TLS with.

use std::sync::Arc;

use minik8s_meta::gateway::GatewayBackendTls;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Authorities of the machine, where most systems keep them.
const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";

pub fn config(tls: &GatewayBackendTls) -> Result<Arc<ClientConfig>, String> {
    if let Some(uri) = tls.names.iter().find(|name| name.starts_with("URI:")) {
        return Err(format!("subjectAltNames of the type URI are not known here: {uri}"));
    }
    let mut roots = RootCertStore::empty();
    let pem = match tls.authorities.is_empty() {
        true => std::fs::read(SYSTEM).map_err(|error| format!("cannot read {SYSTEM}: {error}"))?,
        false => tls.authorities.clone().into_bytes(),
    };
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
    roots.add_parsable_certificates(certificates);
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| error.to_string())?;
    let verifier = Arc::new(Named { verifier, names: names(tls) });
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(Arc::new(config))
}

/// Names, one of which the certificate must have; none for the one that is asked for.
fn names(tls: &GatewayBackendTls) -> Vec<ServerName<'static>> {
    let dns = tls.names.iter().filter_map(|name| name.strip_prefix("DNS:"));
    dns.filter_map(|name| ServerName::try_from(name.to_owned()).ok()).collect()
}

/// The ordinary check, of other names than the one that was asked for, if there are such.
#[derive(Debug)]
struct Named {
    verifier: Arc<WebPkiServerVerifier>,
    names: Vec<ServerName<'static>>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.names.is_empty() {
            return self.verifier.verify_server_cert(certificate, chain, name, ocsp, now);
        }
        let mut last = Error::InvalidCertificate(CertificateError::NotValidForName);
        for name in &self.names {
            match self.verifier.verify_server_cert(certificate, chain, name, ocsp, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
