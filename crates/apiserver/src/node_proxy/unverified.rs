//! TLS to a pod or Service whose certificate nobody here can know: `https:NAME:PORT`. It hides what is said from
//! those between, as upstream's, and proves nothing. The API server shows no certificate of its own.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio_rustls::TlsConnector;

pub fn connector() -> Result<TlsConnector, Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug)]
pub struct AnyCertificate(pub Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use minik8s_auth::pki::{self, Pki, ServingNames};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsAcceptor;

    use super::*;

    #[tokio::test]
    async fn https_to_a_pod_takes_any_certificate_and_shows_none() {
        let dir = tempfile::tempdir().unwrap();
        let names = ServingNames {
            host_name: "another".to_owned(),
            addresses: Vec::new(),
            extra_names: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            service_address: None,
        };
        let pki = Pki::load_or_create(dir.path(), &names, Timestamp::now()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(pki::server_config(&pki).unwrap()));
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let pod = tokio::spawn(async move {
            let mut stream = acceptor.accept(theirs).await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            stream.shutdown().await.unwrap();
            stream.get_ref().1.peer_certificates().is_some()
        });
        let name = ServerName::from(std::net::IpAddr::from([10, 244, 0, 7]));
        let mut stream = connector().unwrap().connect(name, ours).await.unwrap();
        let mut said = [0; 5];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!((&said, pod.await.unwrap()), (b"hello", false));
    }
}
