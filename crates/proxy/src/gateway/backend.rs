//! Backends that speak something else than plain HTTP/1.1: HTTP/2 without TLS, or TLS.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{HOST, HeaderName};
use http::uri::{Authority, Parts as UriParts, PathAndQuery, Scheme};
use http::{Request, Response, Uri, Version};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use minik8s_meta::gateway::GatewayBackendTls;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{Treatment, tls_client};
use crate::stream::{Secured, Stream};
use crate::{Body, ConnectError, ExchangeError, Failure, RequestBody, Timeouts, detached};

/// How a backend is spoken to.
pub enum Protocol<'a> {
    Http,
    H2c,
    Tls(&'a GatewayBackendTls),
}

impl<'a> Protocol<'a> {
    pub fn of<R>(treatment: &'a Treatment<R>) -> Self {
        match (&treatment.tls, treatment.h2c) {
            (Some(tls), _) => Protocol::Tls(tls),
            (None, true) => Protocol::H2c,
            (None, false) => Protocol::Http,
        }
    }
}

/// One connection per endpoint, which all requests share.
#[derive(Debug, Default, Clone)]
pub struct H2cConnections(Arc<Mutex<HashMap<SocketAddr, http2::SendRequest<RequestBody>>>>);

impl H2cConnections {
    /// Forgets endpoints that are none any more; requests under way end.
    pub fn retain(&self, is_used: impl Fn(&SocketAddr) -> bool) {
        self.0.lock().retain(|address, _| is_used(address));
    }

    /// To that endpoint: the one there is, or a new one.
    pub(super) async fn get(
        &self,
        address: SocketAddr,
        secured: Secured,
        timeouts: Timeouts,
    ) -> Result<http2::SendRequest<RequestBody>, ConnectError> {
        let known = self.0.lock().get(&address).filter(|sender| !sender.is_closed()).cloned();
        if let Some(sender) = known {
            return Ok(sender);
        }
        let stream = Stream::connect(address, secured, timeouts.connect).await?;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(timeouts.client);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        self.0.lock().insert(address, sender.clone());
        Ok(sender)
    }
}

/// Over HTTP/2.
pub async fn send_h2c(
    connections: &H2cConnections,
    (address, secured): (SocketAddr, Secured),
    timeouts: Timeouts,
    request: Request<RequestBody>,
) -> Result<Response<Body>, Failure> {
    let request = for_h2(request);
    let mut sender = connections
        .get(address, secured, timeouts)
        .await
        .map_err(|error| Failure::Connect(address, error))?;
    let answer = async {
        sender.ready().await?;
        sender.send_request(request).await
    };
    let answer = timeout(timeouts.answer, answer).await;
    let answer = answer.map_err(|_| Failure::Exchange(address, ExchangeError::TimedOut))?;
    let response = answer.map_err(|error| Failure::Exchange(address, ExchangeError::Broken(error)))?;
    Ok(detached(response, timeouts))
}

/// A head as HTTP/2 has it: the host is part of the target.
fn for_h2(request: Request<RequestBody>) -> Request<RequestBody> {
    const NOT_IN_H2: [HeaderName; 4] =
        [HOST, http::header::CONNECTION, http::header::TRANSFER_ENCODING, http::header::UPGRADE];
    let (mut parts, body) = request.into_parts();
    let host = parts.headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut uri = UriParts::default();
    uri.scheme = Some(Scheme::HTTP);
    uri.authority = host.or_else(|| Authority::try_from("backend").ok());
    uri.path_and_query =
        Some(parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/")));
    if let Ok(uri) = Uri::from_parts(uri) {
        parts.uri = uri;
    }
    for name in NOT_IN_H2 {
        parts.headers.remove(name);
    }
    parts.version = Version::HTTP_2;
    Request::from_parts(parts, body)
}

/// On a connection of its own.
pub async fn send_plain(
    (address, secured): (SocketAddr, Secured),
    timeouts: Timeouts,
    request: Request<RequestBody>,
) -> Result<Response<Body>, Failure> {
    let stream = Stream::connect(address, secured, timeouts.connect).await;
    let stream = stream.map_err(|error| Failure::Connect(address, error))?;
    exchange(TokioIo::new(stream), address, timeouts, request).await
}

/// With TLS, on a connection of its own.
pub async fn send_tls(
    (tls, shown): (&GatewayBackendTls, Result<Option<Arc<CertifiedKey>>, String>),
    address: SocketAddr,
    timeouts: Timeouts,
    request: Request<RequestBody>,
) -> Result<Response<Body>, Failure> {
    let refused =
        |text: String| Failure::Connect(address, ConnectError::Refused(std::io::Error::other(text)));
    let config = shown.and_then(|shown| tls_client::config(tls, shown)).map_err(refused)?;
    let name = ServerName::try_from(tls.hostname.clone()).map_err(|error| refused(error.to_string()))?;
    let stream = connect(address, timeouts).await.map_err(|error| Failure::Connect(address, error))?;
    let connector = TlsConnector::from(config);
    let handshake = timeout(timeouts.connect, connector.connect(name, stream)).await;
    let handshake = handshake.map_err(|_| Failure::Connect(address, ConnectError::TimedOut))?;
    let stream = handshake.map_err(|error| Failure::Connect(address, ConnectError::Refused(error)))?;
    exchange(TokioIo::new(stream), address, timeouts, request).await
}

async fn exchange<I>(
    stream: TokioIo<I>,
    address: SocketAddr,
    timeouts: Timeouts,
    request: Request<RequestBody>,
) -> Result<Response<Body>, Failure>
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let shaken = http1::handshake(stream).await;
    let (mut sender, connection) =
        shaken.map_err(|error| Failure::Connect(address, ConnectError::Handshake(error)))?;
    tokio::spawn(connection);
    let answer = timeout(timeouts.answer, sender.send_request(request)).await;
    let answer = answer.map_err(|_| Failure::Exchange(address, ExchangeError::TimedOut))?;
    let response = answer.map_err(|error| Failure::Exchange(address, ExchangeError::Broken(error)))?;
    Ok(detached(response, timeouts))
}

async fn connect(address: SocketAddr, timeouts: Timeouts) -> Result<TcpStream, ConnectError> {
    let connected = timeout(timeouts.connect, TcpStream::connect(address)).await;
    let stream = connected.map_err(|_| ConnectError::TimedOut)??;
    stream.set_nodelay(true)?;
    Ok(stream)
}
