//! How backends are known that Gateways speak TLS with.

use std::sync::Arc;

use minik8s_meta::gateway::GatewayBackendTls;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Authorities of the machine, where most systems keep them.
const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";

/// `shown`: a certificate of the Gateway's own.
pub fn config(
    tls: &GatewayBackendTls,
    shown: Option<Arc<CertifiedKey>>,
) -> Result<Arc<ClientConfig>, String> {
    let (verifier, provider) = verifier(tls)?;
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let config = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(Arc::new(match shown {
        Some(key) => config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
        None => config.with_no_client_auth(),
    }))
}

fn verifier(tls: &GatewayBackendTls) -> Result<(Named, Arc<CryptoProvider>), String> {
    let mut roots = RootCertStore::empty();
    let pem = match tls.authorities.is_empty() {
        true => std::fs::read(SYSTEM).map_err(|error| format!("cannot read {SYSTEM}: {error}"))?,
        false => tls.authorities.clone().into_bytes(),
    };
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
    roots.add_parsable_certificates(certificates);
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(roots);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .map_err(|error| error.to_string())?;
    let algorithms = provider.signature_verification_algorithms;
    Ok((Named { verifier, names: names(tls), uris: uris(tls), roots, algorithms }, provider))
}

/// Names, one of which the certificate must have; none for the one that is asked for.
fn names(tls: &GatewayBackendTls) -> Vec<ServerName<'static>> {
    let dns = tls.names.iter().filter_map(|name| name.strip_prefix("DNS:"));
    dns.filter_map(|name| ServerName::try_from(name.to_owned()).ok()).collect()
}

fn uris(tls: &GatewayBackendTls) -> Vec<String> {
    tls.names.iter().filter_map(|name| name.strip_prefix("URI:")).map(str::to_owned).collect()
}

/// The ordinary check, of other names than the one that was asked for, if there are such.
#[derive(Debug)]
struct Named {
    verifier: Arc<WebPkiServerVerifier>,
    names: Vec<ServerName<'static>>,
    uris: Vec<String>,
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Named {
    fn has_uri(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
        let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
        let mut names = names.value.general_names.iter();
        names
            .any(|name| matches!(name, GeneralName::URI(uri) if self.uris.iter().any(|wanted| wanted == uri)))
    }
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
        if self.names.is_empty() && self.uris.is_empty() {
            return self.verifier.verify_server_cert(certificate, chain, name, ocsp, now);
        }
        if self.has_uri(certificate) {
            let parsed = ParsedCertificate::try_from(certificate)?;
            let all = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, chain, now, all)?;
            return Ok(ServerCertVerified::assertion());
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

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};

    use super::*;

    /// A certificate for that DNS name and that URI, as it is seen by whoever wants these names.
    fn check(names: &[&str], expected: bool) {
        let authority_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&authority_key).unwrap();
        let mut backend = CertificateParams::new(vec!["abc.example.com".to_owned()]).unwrap();
        backend.subject_alt_names.push(SanType::URI("spiffe://abc.example.com/test".try_into().unwrap()));
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(params, authority_key);
        let backend = backend.signed_by(&key, &issuer).unwrap();
        let verify = |authorities: String| {
            let tls = GatewayBackendTls {
                hostname: "abc.example.com".to_owned(),
                authorities,
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                certificate: None,
            };
            let named = verifier(&tls).unwrap().0;
            let asked = ServerName::try_from("abc.example.com").unwrap();
            named.verify_server_cert(backend.der(), &[], &asked, &[], UnixTime::now()).is_ok()
        };
        assert_eq!(verify(authority.pem()), expected, "{names:?}");
        let other = CertificateParams::default().self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert!(!verify(other.pem()), "{names:?}: of another authority");
    }

    #[test]
    fn backend_has_one_of_the_names() {
        check(&[], true);
        check(&["DNS:abc.example.com"], true);
        check(&["DNS:other.example.com"], false);
        check(&["URI:spiffe://abc.example.com/test"], true);
        check(&["URI:spiffe://abc.example.com/other"], false);
        check(&["DNS:other.example.com", "URI:spiffe://abc.example.com/test"], true);
        check(&["DNS:other.example.com", "URI:spiffe://abc.example.com/other"], false);
    }
}
