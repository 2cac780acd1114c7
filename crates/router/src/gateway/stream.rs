//! Connections that are not looked into: they go to an endpoint as a whole, byte by byte.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use minik8s_proxy::Route as _;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::proxy::{Client, Worker};
use crate::table::Route;

const CONNECT: Duration = Duration::from_secs(3);
/// Of a client's first message. Real ones have less than a fifth of it.
const LONGEST_HELLO: usize = 16 * 1024;
const PAUSE: Duration = Duration::from_millis(5);

/// The host that a TLS client asks for, in lower case and empty if none. Nothing is taken from the connection. Fails for
/// what is not TLS, or does not come within the limit.
pub async fn server_name(stream: &TcpStream, limit: Duration) -> io::Result<String> {
    let deadline = Instant::now() + limit;
    let mut buffer = vec![0; LONGEST_HELLO];
    let mut seen = 0;
    loop {
        let peeked =
            timeout(deadline.saturating_duration_since(Instant::now()), stream.peek(&mut buffer)).await;
        let length = peeked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(name) = read_hello(&buffer[..length])? {
            return Ok(name);
        }
        if length == buffer.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its first message does not end"));
        }
        // What was seen is there still, so that nothing wakes this but time.
        if length == seen {
            sleep(PAUSE).await;
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        seen = length;
    }
}

fn read_hello(bytes: &[u8]) -> io::Result<Option<String>> {
    let mut acceptor = Acceptor::default();
    acceptor.read_tls(&mut &*bytes)?;
    let accepted =
        acceptor.accept().map_err(|(error, _)| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(accepted.map(|accepted| {
        accepted.client_hello().server_name().map(str::to_ascii_lowercase).unwrap_or_default()
    }))
}

/// Until both sides have ended, or nothing came for long.
pub async fn pass<I>(worker: &Arc<Worker>, route: &Route, mut stream: I, client: &Client) -> io::Result<()>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    if let Some(problem) = route.treatment.as_ref().and_then(|treatment| treatment.problem.as_ref()) {
        return Err(io::Error::other(problem.clone()));
    }
    let endpoints = route.endpoints().map_err(|refusal| io::Error::other(refusal.text))?;
    let start = route.first(client, &worker.turn, endpoints.len());
    let mut backend = connect(&endpoints, start).await?;
    tokio::select! {
        ended = copy_bidirectional(&mut stream, &mut backend) => ended.map(drop),
        () = worker.stopped() => Ok(()),
    }
}

/// The endpoint whose turn it is, or the next one that can be reached.
async fn connect(endpoints: &[SocketAddr], start: usize) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for step in 0..endpoints.len().min(3) {
        let address = endpoints[(start + step) % endpoints.len()];
        match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// The first message of a client that asks for this name.
    fn hello(name: &str) -> Vec<u8> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let config = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let name = name.to_owned().try_into().unwrap();
        let mut bytes = Vec::new();
        ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut bytes).unwrap();
        bytes
    }

    #[tokio::test]
    async fn server_name_is_read_and_nothing_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let check = async |pieces: Vec<Vec<u8>>, expected: Option<&str>| {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let sent = pieces.concat();
            let length = sent.len();
            let writing = tokio::spawn(async move {
                for piece in pieces {
                    client.write_all(&piece).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                client
            });
            let name = server_name(&stream, Duration::from_secs(30)).await;
            assert_eq!(name.ok().as_deref(), expected);
            let _client = writing.await.unwrap();
            let mut again = vec![0; length];
            stream.read_exact(&mut again).await.unwrap();
            assert_eq!(again, sent);
        };
        let whole = hello("Shop.example");
        check(vec![whole.clone()], Some("shop.example")).await;
        let (first, second) = whole.split_at(40);
        check(vec![first.to_vec(), second.to_vec()], Some("shop.example")).await;
        check(vec![b"GET / HTTP/1.1\r\nhost: h\r\n\r\n".to_vec()], None).await;
    }
}
