//! Accepts TLS connections: the API server's, known by its certificate, and a few of others, who need a token.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::route::answer;
use super::token_access::TokenAccess;
use crate::context::ServerContext;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections without the API server's certificate: more than scrapers need, and few enough to hold.
const STRANGERS: usize = 64;
/// How long one of them may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

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

/// What decides who comes in.
struct Door {
    acceptor: TlsAcceptor,
    client_name: String,
    tokens: TokenAccess,
    strangers: Arc<Semaphore>,
}

/// Listens and answers for ever.
pub async fn serve(context: Arc<ServerContext>, serving: Serving) -> Result<(), ServingError> {
    let acceptor = TlsAcceptor::from(Arc::new(tls_config(&serving)?));
    let mut listeners = Vec::new();
    for ip in context.node.config.node_ips() {
        let address = SocketAddr::new(ip, context.node.config.port);
        listeners.push(TcpListener::bind(address).await.map_err(|e| ServingError::Listen(address, e))?);
        info!(%address, "the node's HTTPS port is open");
    }
    let door = Arc::new(Door {
        acceptor,
        client_name: serving.client_name,
        tokens: TokenAccess::new(context.volumes.client.clone(), &context.node.config.node_name),
        strangers: Arc::new(Semaphore::new(STRANGERS)),
    });
    let accept = |listener| accept(listener, context.clone(), door.clone());
    futures::future::join_all(listeners.into_iter().map(accept)).await;
    Ok(())
}

/// Of one address of the node, for ever.
async fn accept(listener: TcpListener, context: Arc<ServerContext>, door: Arc<Door>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                tokio::spawn(connection(context.clone(), door.clone(), stream, peer));
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
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(serving.identity.clone());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

async fn connection(context: Arc<ServerContext>, door: Arc<Door>, stream: TcpStream, peer: SocketAddr) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, door.acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, %peer, "no TLS"),
        Err(_) => return debug!(%peer, "no TLS handshake in time"),
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let name = certificates.and_then(|chain| chain.first()).and_then(|leaf| common_name(leaf));
    let is_api_server = name.as_deref() == Some(&*door.client_name);
    let mut http = hyper::server::conn::http1::Builder::new();
    let mut place = None;
    if !is_api_server {
        http.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT);
        place = door.strangers.clone().try_acquire_owned().ok();
        if place.is_none() {
            return debug!(%peer, "too many connections without a certificate");
        }
    }
    let service = service_fn(move |request| {
        let (context, door) = (context.clone(), door.clone());
        async move {
            let strangers = (!is_api_server).then_some(&door.tokens);
            Ok::<_, std::convert::Infallible>(answer(context, request, strangers).await)
        }
    });
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await {
        debug!(%error, %peer, "a connection ended");
    }
    drop(place);
}

fn common_name(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name.to_owned())
}
