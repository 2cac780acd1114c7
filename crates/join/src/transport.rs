//! The HTTP client of a node: one HTTP/2 connection to a server, made anew when it breaks.
//!
//! Pings find out within seconds that a server is gone without a word, so that watches do not hang on it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue, USER_AGENT};
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;
use minik8s_auth::pki::LiveIdentity;
use parking_lot::RwLock;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::dial::{Dialer, SERVER_NAME};
use crate::{JoinError, ServerAddress};

const PING: Duration = Duration::from_secs(3);
const PONG: Duration = Duration::from_secs(3);

/// How the node proves who it is.
pub enum Proof {
    Token(String),
    Certificate(Arc<LiveIdentity>),
}

#[derive(Clone)]
pub struct Transport {
    dialer: Dialer,
    pool: Arc<RwLock<Client<Dialer, Body>>>,
    token: Option<HeaderValue>,
}

impl Transport {
    pub fn new(servers: &[ServerAddress], authority: &[u8], proof: Proof) -> Result<Self, JoinError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(authority.to_vec()))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let (mut tls, token) = match proof {
            Proof::Token(token) => {
                let header = HeaderValue::from_str(&format!("Bearer {token}"));
                (builder.with_no_client_auth(), Some(header.map_err(|_| JoinError::TokenRefused)?))
            }
            Proof::Certificate(identity) => (builder.with_client_cert_resolver(identity), None),
        };
        tls.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would be that of the certificate it began with.
        tls.resumption = Resumption::disabled();
        let dialer = Dialer::new(servers, tls);
        let pool = Arc::new(RwLock::new(pool(&dialer)));
        Ok(Transport { dialer, pool, token })
    }

    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    pub fn set_servers(&self, servers: &[ServerAddress]) {
        self.dialer.set_servers(servers);
    }

    /// New requests use a new connection: the old one belongs to the old certificate.
    pub fn reconnect(&self) {
        *self.pool.write() = pool(&self.dialer);
    }
}

fn pool(dialer: &Dialer) -> Client<Dialer, Body> {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_only(true)
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PONG)
        .http2_keep_alive_while_idle(true)
        .build(dialer.clone())
}

impl tower::Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(Scheme::HTTPS);
        parts.authority = Some(Authority::from_static(SERVER_NAME));
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        // `managedFields` names writers by their program; clients know this one by upstream's name.
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("kubelet"));
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        let pool = self.pool.read().clone();
        Box::pin(async move { pool.request(request).await })
    }
}
