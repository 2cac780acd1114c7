//! The TLS port.

use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Api;
use crate::audit::Source;
use crate::authenticator::Peer;
use crate::connections::{Connections, Counted};
use crate::flow::{Connection, Level};

/// A client must finish the handshake, and send a request's header, within this time.
const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADER: Duration = Duration::from_secs(10);
/// How often a quiet HTTP/2 connection is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// What a client may send in the clear before its connection is cut.
const MAX_IGNORED: u64 = 1 << 20;
/// Open requests get this long when the server stops.
const DRAIN: Duration = Duration::from_secs(2);

/// Serves until `stop`, then lets open requests finish for a moment.
pub async fn serve(api: Arc<Api>, listener: TcpListener, tls: TlsAcceptor, stop: CancellationToken) {
    let (connections, bounds) = (TaskTracker::new(), Arc::new(Connections::new()));
    loop {
        let (stream, peer) = tokio::select! {
            _ = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, mostly: wait for connections to end.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        match bounds.enter(peer.ip()) {
            Some(counted) => {
                connections.spawn(connection(api.clone(), stream, counted, tls.clone(), stop.clone()));
            }
            None => tracing::debug!(%peer, "one connection too many"),
        }
    }
    connections.close();
    let _ = tokio::time::timeout(DRAIN, connections.wait()).await;
}

async fn connection(
    api: Arc<Api>,
    stream: TcpStream,
    mut counted: Counted,
    tls: TlsAcceptor,
    stop: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    // A listener on `::` shows clients of IPv4 as addresses of IPv6.
    let source = stream.peer_addr().ok().map(|address| Source(address.ip().to_canonical()));
    let displaced = counted.displaced();
    let Some(Some(stream)) = displaced.run_until_cancelled(handshake(stream, &tls)).await else { return };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let (peer, front_proxy) = api.authenticator.peers(chain);
    let is_front_proxy = front_proxy.as_ref().is_some_and(|proxy| api.authenticator.believes(proxy));
    if !counted.settle(is_front_proxy || peer.as_ref().is_some_and(is_trusted)) {
        return tracing::debug!("one connection too many");
    }
    let arriving = Connection::default();
    let service = service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(arriving.clone());
        if let Some(source) = source {
            request.extensions_mut().insert(source);
        }
        if let Some(peer) = &peer {
            request.extensions_mut().insert(peer.clone());
        }
        if let Some(front_proxy) = &front_proxy {
            request.extensions_mut().insert(front_proxy.clone());
        }
        let api = api.clone();
        // On the heap, since the connection keeps the future's place for as long as it lives: a thousand idle
        // watches would hold 14 MB for requests that were answered long ago.
        Box::pin(async move { Ok::<_, std::convert::Infallible>(api.handle(request).await) })
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER).max_buf_size(256 * 1024);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000).keep_alive_interval(KEEP_ALIVE);
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        _ = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// None: there will be no requests.
async fn handshake(stream: TcpStream, tls: &TlsAcceptor) -> Option<TlsStream<TcpStream>> {
    match tokio::time::timeout(HANDSHAKE, speaks_plain_http(&stream)).await {
        Ok(true) => {
            explain_https(stream).await;
            return None;
        }
        Ok(false) => {}
        Err(_) => {
            tracing::debug!("a client connected and said nothing");
            return None;
        }
    }
    match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
    None
}

/// Nodes and administrators count apart from others.
fn is_trusted(Peer(named): &Peer) -> bool {
    let user = named.as_ref().as_ref().ok().and_then(|named| named.at(Timestamp::now()).ok());
    user.is_some_and(|user| Level::of(user) == Level::System)
}

/// TLS begins with the byte 22, a request in the clear with the letters of its method.
async fn speaks_plain_http(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1) if first[0].is_ascii_uppercase())
}

/// Tells someone who forgot the `s` of `https` about it, in upstream's words.
async fn explain_https(mut stream: TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
        Connection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    let told = async {
        stream.write_all(ANSWER).await?;
        stream.shutdown().await?;
        // Closing with unread bytes would reset the connection and lose the answer.
        tokio::io::copy(&mut stream.take(MAX_IGNORED), &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(DRAIN, told).await;
}
