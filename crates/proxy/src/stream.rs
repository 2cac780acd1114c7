//! A connection to a backend: plain, or with TLS where the front says so.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::exchange::ConnectError;

/// How a backend is to be spoken to. Whom to expect there is for the configuration's own verifier to know.
pub type Secured = Option<Arc<ClientConfig>>;

/// No backend is told this name: configurations have their own idea of who is right.
const NO_NAME: &str = "backend.invalid";
/// For the handshake of one that has taken the connection: when thousands come at once, others are before it.
const HANDSHAKE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// A backend that turns out to be at this very address, such as a pod that calls itself, is spoken to plainly: no
    /// proxy is before it.
    pub async fn connect(
        address: SocketAddr,
        secured: Secured,
        limit: Duration,
    ) -> Result<Self, ConnectError> {
        let connected = timeout(limit, TcpStream::connect(address)).await;
        let stream = connected.map_err(|_| ConnectError::TimedOut)??;
        stream.set_nodelay(true)?;
        let is_own = stream.local_addr().is_ok_and(|own| own.ip() == address.ip());
        let Some(config) = secured.filter(|_| !is_own) else { return Ok(Stream::Plain(stream)) };
        let name = ServerName::try_from(NO_NAME).map_err(io::Error::other)?;
        // Large, and over soon.
        let shaking = Box::pin(TlsConnector::from(config).connect(name, stream));
        let secured = timeout(limit.max(HANDSHAKE), shaking).await.map_err(|_| ConnectError::TimedOut)?;
        Ok(Stream::Tls(Box::new(secured?)))
    }

    /// Whether nothing has come since it was last used. If something has, it is the end or none of ours.
    pub(crate) fn is_silent(&self) -> bool {
        let stream = match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        };
        stream.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
