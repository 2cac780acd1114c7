//! Listeners that ask for certificates of clients (`tls.frontend` of a Gateway).
//!
//! What is kept of them is made anew when the authorities are others, so that nobody goes on with a session of before.
//! Where the authorities cannot be used nobody is let in.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use tokio_rustls::TlsAcceptor;

use super::{Resolver, finished};
use crate::gateway::Clients;
use crate::proxy::Shared;

/// By the routers' port, with what each was made of.
#[derive(Default)]
pub struct CheckedAcceptors(Mutex<HashMap<u16, (Arc<Clients>, TlsAcceptor)>>);

impl std::fmt::Debug for CheckedAcceptors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CheckedAcceptors")
    }
}

impl CheckedAcceptors {
    pub fn get(&self, shared: &Arc<Shared>, port: u16, clients: &Arc<Clients>) -> io::Result<TlsAcceptor> {
        let mut known = self.0.lock();
        if let Some((_, acceptor)) = known.get(&port).filter(|(of, _)| of == clients) {
            return Ok(acceptor.clone());
        }
        let resolver = Arc::new(Resolver { shared: shared.clone(), port: Some(port) });
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let config = builder.with_client_cert_verifier(verifier(clients)?).with_cert_resolver(resolver);
        let acceptor = TlsAcceptor::from(finished(config));
        known.insert(port, (clients.clone(), acceptor.clone()));
        Ok(acceptor)
    }
}

fn verifier(clients: &Clients) -> io::Result<Arc<dyn ClientCertVerifier>> {
    let provider = Arc::new(ring::default_provider());
    if clients.insecure_fallback {
        return Ok(Arc::new(Anybody(provider.signature_verification_algorithms)));
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(clients.authorities.as_bytes()) {
        roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map(|verifier| verifier as Arc<dyn ClientCertVerifier>).map_err(io::Error::other)
}

/// Asks for a certificate and takes any, or none. That its owner has the key is checked all the same.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ClientCertVerifier for Anybody {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use rustls::ClientConfig;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::sign::CertifiedKey;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::Certificates;

    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        pem: String,
    }

    type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

    impl Authority {
        fn new() -> Self {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, "authority");
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let pem = params.self_signed(&key).unwrap().pem();
            Authority { issuer: Issuer::new(params, key), pem }
        }

        fn issue(&self, name: &str) -> Pair {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &self.issuer).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
            (vec![certificate.der().clone()], key)
        }
    }

    /// Whether a client with that certificate, or with none, is answered.
    async fn is_let_in(acceptor: &TlsAcceptor, server: &Authority, shown: Option<Pair>) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(server.pem.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let config = match shown {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
            None => builder.with_no_client_auth(),
        };
        let (near, far) = duplex(64 << 10);
        let asking = async {
            let name = ServerName::try_from("shop.example").unwrap();
            let mut stream = TlsConnector::from(Arc::new(config)).connect(name, near).await.ok()?;
            stream.read_u8().await.ok()
        };
        let answering = async {
            let mut stream = acceptor.accept(far).await.ok()?;
            stream.write_all(b"x").await.ok()?;
            stream.flush().await.ok()
        };
        tokio::join!(asking, answering).0 == Some(b'x')
    }

    #[tokio::test]
    async fn clients_are_let_in_by_their_authority() {
        let (server, ours, theirs) = (Authority::new(), Authority::new(), Authority::new());
        let (chain, key) = server.issue("shop.example");
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider()).unwrap();
        let shared = Arc::<Shared>::default();
        let by_port = [(443, vec![(String::new(), vec![Arc::new(key)])])].into();
        shared.certificates.send_replace(Arc::new(Certificates { by_port, ..Certificates::default() }));
        let acceptors = CheckedAcceptors::default();
        let by = |authority: &Authority, insecure_fallback: bool| {
            let clients = Clients { authorities: authority.pem.clone(), insecure_fallback };
            acceptors.get(&shared, 443, &Arc::new(clients))
        };
        let strict = by(&ours, false).unwrap();
        assert!(is_let_in(&strict, &server, Some(ours.issue("jane"))).await);
        assert!(!is_let_in(&strict, &server, Some(theirs.issue("jane"))).await, "of another authority");
        assert!(!is_let_in(&strict, &server, None).await, "without one");
        let anybody = by(&ours, true).unwrap();
        assert!(is_let_in(&anybody, &server, Some(theirs.issue("jane"))).await);
        assert!(is_let_in(&anybody, &server, None).await);
        // The authority is replaced.
        let other = by(&theirs, false).unwrap();
        assert!(!is_let_in(&other, &server, Some(ours.issue("jane"))).await);
        assert!(is_let_in(&other, &server, Some(theirs.issue("jane"))).await);
        let broken = Arc::new(Clients { authorities: "nothing".to_owned(), insecure_fallback: false });
        assert!(acceptors.get(&shared, 443, &broken).is_err(), "nobody could be let in");
    }
}
