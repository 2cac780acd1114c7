//! Connections to a port of which nobody has said what is spoken there: requests, unless the server speaks first.
//!
//! A client that has something to say does so at once, and its requests are looked at. Where a client waits, an endpoint is
//! called meanwhile, and whoever speaks first decides: mail servers and databases greet their clients. Nobody looks into
//! such a connection any more. No server is ever sent anything here before the client has spoken.

use std::net::SocketAddr;
use std::time::Duration;

use minik8s_proxy::{EndpointTurns, Secured, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Accepted, opaque};

/// For a client to say something, before an endpoint is called for nothing.
const FIRST_BYTES: Duration = Duration::from_millis(50);
/// For a greeting. Some mail servers take their time; a connection without any keeps an endpoint's for no longer.
const GREETING: Duration = Duration::from_secs(30);
/// What is held for a connection that waits.
const LARGEST_PIECE: usize = 512;

/// The client, if its requests are to be looked at. Else the connection is served to its end.
pub async fn unless_server_first(
    mut client: Accepted,
    targets: &[SocketAddr],
    turns: &EndpointTurns,
    secured: impl Fn(SocketAddr) -> Secured,
) -> Option<Accepted> {
    if timeout(FIRST_BYTES, speaks(&client)).await.is_ok() {
        return Some(client);
    }
    let greeted = tokio::select! {
        biased;
        () = speaks(&client) => None,
        greeted = timeout(GREETING, greeting(targets, turns, secured)) => greeted.ok().flatten(),
    };
    let Some((greeting, mut backend)) = greeted else { return Some(client) };
    if client.write_all(&greeting).await.is_ok() {
        // However it ends, both sides know.
        let _ = minik8s_proxy::pass(&mut client, &mut backend).await;
    }
    None
}

/// Returns when a client has said something, or ends.
async fn speaks(client: &TcpStream) {
    let mut first = [0];
    let _ = client.peek(&mut first).await;
}

/// What the first target that takes the connection says. `None` if it says nothing until the end, or if there is no target.
async fn greeting(
    targets: &[SocketAddr],
    turns: &EndpointTurns,
    secured: impl Fn(SocketAddr) -> Secured,
) -> Option<(Vec<u8>, Stream)> {
    for target in targets {
        let Some(mut backend) = opaque::connect(*target, turns, secured(*target)).await else { continue };
        let mut greeting = Vec::with_capacity(LARGEST_PIECE);
        let read = backend.read_buf(&mut greeting).await.ok()?;
        return (read > 0).then_some((greeting, backend));
    }
    None
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A server that greets, if it does, and sends back what comes.
    async fn server(greeting: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let _ = stream.write_all(greeting).await;
                    let (mut reader, mut writer) = stream.split();
                    let _ = tokio::io::copy(&mut reader, &mut writer).await;
                });
            }
        });
        address
    }

    /// A client of a proxy that has these targets; and whether it is taken for one that makes requests.
    async fn client(targets: Vec<SocketAddr>) -> (TcpStream, tokio::task::JoinHandle<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let served = tokio::spawn(async move {
            let turns = EndpointTurns::default();
            unless_server_first(accepted.into(), &targets, &turns, |_| None).await.is_some()
        });
        (stream, served)
    }

    #[tokio::test]
    async fn server_that_speaks_first_is_heard_and_answered() {
        let dead = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let (mut stream, served) = client(vec![dead, server(b"220 ready\r\n").await]).await;
        let mut heard = [0; 11];
        timeout(LONG, stream.read_exact(&mut heard)).await.expect("not stalled").unwrap();
        assert_eq!(&heard, b"220 ready\r\n");
        stream.write_all(b"EHLO").await.unwrap();
        let mut echoed = [0; 4];
        timeout(LONG, stream.read_exact(&mut echoed)).await.expect("passed on").unwrap();
        assert_eq!(&echoed, b"EHLO");
        drop(stream);
        assert!(!served.await.unwrap(), "nobody looks for requests");
    }

    #[tokio::test]
    async fn client_that_speaks_first_makes_requests() {
        let silent = server(b"").await;
        for pause in [Duration::ZERO, FIRST_BYTES * 3] {
            let (mut stream, served) = client(vec![silent]).await;
            tokio::time::sleep(pause).await;
            stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
            assert!(timeout(LONG, served).await.unwrap().unwrap(), "after {pause:?}");
        }
        let (_stream, served) = client(Vec::new()).await;
        assert!(timeout(LONG, served).await.unwrap().unwrap(), "nobody could greet");
    }
}
