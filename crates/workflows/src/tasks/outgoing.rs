//! One HTTP request to one address. Redirects are not followed: they would lead past the check of the address.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// More than any state may hold, so that what is too large is told as such.
const LARGEST_BODY: usize = 1024 * 1024;

pub struct Target {
    pub address: SocketAddr,
    /// The name that the other side must prove to have.
    pub tls: Option<ServerName<'static>>,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("cannot connect to {0}: {1}")]
    Connect(SocketAddr, std::io::Error),
    #[error("{0} does not answer")]
    Silent(SocketAddr),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("the answer cannot be read, or has more than 1 MiB: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("no certificate authorities: {0}")]
    Roots(String),
}

pub async fn send(target: Target, request: Request<Bytes>) -> Result<Answer, SendError> {
    let address = target.address;
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let stream = connected
        .map_err(|_| SendError::Silent(address))?
        .map_err(|error| SendError::Connect(address, error))?;
    match target.tls {
        None => exchange(stream, request).await,
        Some(name) => {
            let handshake = tls()?.connect(name, stream);
            let stream = tokio::time::timeout(CONNECT_TIMEOUT, handshake).await;
            let stream = stream
                .map_err(|_| SendError::Silent(address))?
                .map_err(|error| SendError::Connect(address, error))?;
            exchange(stream, request).await
        }
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Bytes>,
) -> Result<Answer, SendError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchanged = async {
        let (parts, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
        Ok(Answer { status: parts.status, headers: parts.headers, body: whole(body).await? })
    };
    // The connection lives as long as the exchange, and no longer.
    tokio::select! {
        answer = exchanged => answer,
        Err(error) = connection => Err(error.into()),
    }
}

/// All of a body, which may be one without end.
pub async fn whole<B>(body: B) -> Result<Bytes, SendError>
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let whole = Limited::new(body, LARGEST_BODY).collect().await.map_err(SendError::Body)?;
    Ok(whole.to_bytes())
}

/// Trusts what this machine trusts.
fn tls() -> Result<TlsConnector, SendError> {
    static TLS: OnceLock<Result<TlsConnector, String>> = OnceLock::new();
    let made = TLS.get_or_init(|| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    });
    made.clone().map_err(SendError::Roots)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::StreamExt;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    #[tokio::test]
    async fn body_without_end_is_not_held() {
        let piece = || Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b'x'; 1 << 16])));
        let pieces = |count| StreamBody::new(futures::stream::repeat_with(piece).take(count));
        assert_eq!(whole(pieces(16)).await.unwrap().len(), LARGEST_BODY);
        assert!(matches!(whole(pieces(usize::MAX)).await, Err(SendError::Body(_))));
    }
}
