//! Connections to whichever server answers.
//!
//! All servers of a cluster show certificates of one authority with the name `kubernetes`, so it does not
//! matter which of them is reached. The last one that answered is tried first. Which servers there are may change
//! at any time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::ServerAddress;

/// A name that every API server has.
pub const SERVER_NAME: &str = "kubernetes";
/// For one server; a machine that is switched off does not answer at all.
const TIMEOUT: Duration = Duration::from_secs(4);

#[derive(Clone)]
pub struct Dialer {
    /// The one that answered last comes first.
    servers: Arc<Mutex<Vec<ServerAddress>>>,
    tls: Arc<ClientConfig>,
}

/// What each server had to say, in one line.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct DialError(pub String);

impl Dialer {
    pub fn new(servers: &[ServerAddress], tls: ClientConfig) -> Self {
        Dialer { servers: Arc::new(Mutex::new(servers.to_vec())), tls: Arc::new(tls) }
    }

    /// From now on these; one that is in use stays in use.
    pub fn set_servers(&self, servers: &[ServerAddress]) {
        let mut known = self.servers.lock();
        let first = known.first().filter(|first| servers.contains(first)).cloned();
        let others = servers.iter().filter(|server| Some(*server) != first.as_ref()).cloned();
        *known = first.clone().into_iter().chain(others).collect();
    }

    pub async fn dial(&self) -> Result<TlsStream<TcpStream>, DialError> {
        let servers = self.servers.lock().clone();
        let mut refusals = Vec::new();
        for (index, server) in servers.iter().enumerate() {
            match tokio::time::timeout(TIMEOUT, self.connect(server)).await {
                Ok(Ok(stream)) => {
                    if index > 0 {
                        tracing::info!(%server, "another server answers");
                        self.prefer(server);
                    }
                    return Ok(stream);
                }
                Ok(Err(error)) => refusals.push(format!("{server}: {error}")),
                Err(_) => refusals.push(format!("{server}: no answer")),
            }
        }
        Err(DialError(refusals.join("; ")))
    }

    /// The order of the others stays, so that each gets its turn.
    fn prefer(&self, server: &ServerAddress) {
        let mut known = self.servers.lock();
        if let Some(position) = known.iter().position(|other| other == server) {
            known.rotate_left(position);
        }
    }

    async fn connect(&self, server: &ServerAddress) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect((server.host.as_str(), server.port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(SERVER_NAME).map_err(std::io::Error::other)?;
        TlsConnector::from(self.tls.clone()).connect(name, stream).await
    }
}

impl tower::Service<http::Uri> for Dialer {
    type Response = ServerStream;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<ServerStream, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        let dialer = self.clone();
        Box::pin(async move { Ok(ServerStream(TokioIo::new(dialer.dial().await?))) })
    }
}

/// A connection on which HTTP/2 is spoken.
pub struct ServerStream(TokioIo<TlsStream<TcpStream>>);

impl Connection for ServerStream {
    fn connected(&self) -> Connected {
        Connected::new().negotiated_h2()
    }
}

impl Read for ServerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for ServerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
