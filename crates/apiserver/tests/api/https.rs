//! A web service of the test's own, over TLS: a conversion webhook, an extension API server.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use minik8s_auth::pki::{Pki, ServingNames};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// Answers until it is dropped.
pub struct HttpsServer {
    pub address: SocketAddr,
    /// Whom clients must trust.
    pub ca: String,
    /// Whom it trusts itself; nobody must show a certificate until this is set.
    clients: Arc<Mutex<Option<String>>>,
    serving: JoinHandle<()>,
    _dir: TempDir,
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl HttpsServer {
    pub async fn start<H>(ip: IpAddr, host: &str, handler: H) -> HttpsServer
    where
        H: Fn(Request<Bytes>) -> Response<String> + Send + Sync + Clone + 'static,
    {
        let dir = tempfile::tempdir().unwrap();
        let names = ServingNames {
            host_name: host.to_owned(),
            addresses: vec![ip],
            extra_names: vec![host.to_owned()],
            cluster_domain: "cluster.local".to_owned(),
            service_address: None,
        };
        let pki = Pki::load_or_create(dir.path(), &names, Timestamp::now()).unwrap();
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let (address, ca) = (listener.local_addr().unwrap(), pki.ca_pem());
        let clients: Arc<Mutex<Option<String>>> = Arc::default();
        let trusted = clients.clone();
        let serving = tokio::spawn(async move {
            // They end with the server.
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let tls = acceptor(&pki, trusted.lock().unwrap().as_deref());
                let handler = handler.clone();
                connections.spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service = service_fn(move |request: Request<Incoming>| {
                        let handler = handler.clone();
                        async move {
                            let (parts, body) = request.into_parts();
                            let body = body.collect().await?.to_bytes();
                            let answer = handler(Request::from_parts(parts, body));
                            Ok::<_, hyper::Error>(answer.map(|text| Full::new(Bytes::from(text))))
                        }
                    });
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        HttpsServer { address, ca, clients, serving, _dir: dir }
    }

    /// From now on lets in only those who show a certificate of this authority.
    pub fn trust(&self, ca: &str) {
        *self.clients.lock().unwrap() = Some(ca.to_owned());
    }
}

fn acceptor(pki: &Pki, clients: Option<&str>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    TlsAcceptor::from(Arc::new(builder.with_cert_resolver(pki.serving_cert())))
}
