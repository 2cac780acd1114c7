//! Accepts TLS connections and lets only the API server in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::route::answer;
use crate::context::Context;

const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// How the agent proves who it is, and whom it lets in.
#[derive(Clone)]
pub struct Serving {
    /// Asked on every connection, so that a renewed certificate is shown at once.
    pub identity: Arc<dyn ResolvesServerCert>,
    /// Authority of the clients' certificates, in PEM.
    pub client_ca: String,
    /// Common name that a client's certificate must have.
    pub client_name: String,
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").field("client_name", &self.client_name).finish_non_exhaustive()
    }
}

#[derive(Debug, Error)]
pub enum ServingError {
    #[error("bad client authority")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("unusable client authority")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
}

/// Listens and answers for ever.
pub async fn serve(context: Arc<Context>, serving: Serving) -> Result<(), ServingError> {
    let acceptor = TlsAcceptor::from(Arc::new(tls_config(&serving)?));
    let address = SocketAddr::new(context.config.node_ip, context.config.port);
    let listener = TcpListener::bind(address).await.map_err(|e| ServingError::Listen(address, e))?;
    info!(%address, "the node's HTTPS port is open");
    let client_name: Arc<str> = serving.client_name.into();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (context, acceptor) = (context.clone(), acceptor.clone());
                tokio::spawn(connection(context, acceptor, stream, peer, client_name.clone()));
            }
            Err(error) => {
                // Out of file descriptors, most likely: give others time to close theirs.
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn tls_config(serving: &Serving) -> Result<ServerConfig, ServingError> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(serving.client_ca.as_bytes()) {
        roots.add(certificate?)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(serving.identity.clone());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

async fn connection(
    context: Arc<Context>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
    client_name: Arc<str>,
) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, %peer, "no TLS"),
        Err(_) => return debug!(%peer, "no TLS handshake in time"),
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let name = certificates.and_then(|chain| chain.first()).and_then(|leaf| common_name(leaf));
    let allowed = name.as_deref() == Some(&*client_name);
    let service = service_fn(move |request| {
        let context = context.clone();
        async move { Ok::<_, std::convert::Infallible>(answer(context, request, allowed).await) }
    });
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    if let Err(error) = serving.with_upgrades().await {
        debug!(%error, %peer, "a connection ended");
    }
}

fn common_name(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name.to_owned())
}
