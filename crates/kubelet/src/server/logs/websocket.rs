//! A log for a WebSocket client: its bytes in messages, as they are or in base64 for clients that can only
//! take text. An empty message goes first, which tells the client that the connection stands. What the
//! client sends is not looked at.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};
use tracing::debug;

use super::super::answer::{Body, Refusal};
use super::super::stream::{accept, close, offered};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// Whether the client has called it by its name.
    Binary {
        named: bool,
    },
    Base64,
}

const BINARY: &str = "binary.k8s.io";
const BASE64: &str = "base64.binary.k8s.io";

impl Encoding {
    /// The first that we know of those a client offers. One that offers nothing gets bytes.
    fn choose(headers: &HeaderMap) -> Result<Encoding, Refusal> {
        let offered = offered(headers);
        if offered.is_empty() {
            return Ok(Encoding::Binary { named: false });
        }
        let known = offered.iter().find_map(|name| match *name {
            BINARY => Some(Encoding::Binary { named: true }),
            BASE64 => Some(Encoding::Base64),
            _ => None,
        });
        known.ok_or_else(|| {
            Refusal::bad_request(format!(
                "none of the WebSocket subprotocols {offered:?} is known: {BINARY}, {BASE64} are"
            ))
        })
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Encoding::Binary { named } => named.then_some(BINARY),
            Encoding::Base64 => Some(BASE64),
        }
    }

    fn message(self, chunk: Bytes) -> Message {
        match self {
            Encoding::Binary { .. } => Message::Binary(chunk),
            Encoding::Base64 => Message::text(STANDARD.encode(chunk)),
        }
    }
}

/// Switches protocols and sends what arrives, until the sender is dropped or the client is gone.
pub fn serve(
    mut request: Request<Incoming>,
    chunks: mpsc::Receiver<Bytes>,
) -> Result<Response<Body>, Refusal> {
    let encoding = Encoding::choose(request.headers())?;
    let response = accept(request.headers(), encoding.name())?;
    let client = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        match client.await {
            Ok(client) => {
                let ended = send(TokioIo::new(client), chunks, encoding).await;
                debug!(?ended, "a log ended");
            }
            Err(error) => debug!(%error, "a client did not switch protocols"),
        }
    });
    Ok(response)
}

async fn send<C>(client: C, mut chunks: mpsc::Receiver<Bytes>, encoding: Encoding) -> Result<(), Error>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let mut client = WebSocketStream::from_raw_socket(client, Role::Server, None).await;
    client.send(encoding.message(Bytes::new())).await?;
    loop {
        tokio::select! {
            chunk = chunks.recv() => match chunk {
                Some(chunk) => client.send(encoding.message(chunk)).await?,
                None => return close(&mut client).await,
            },
            message = client.next() => match message.transpose()? {
                Some(Message::Close(_)) | None => return Ok(()),
                Some(_) => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};

    use super::*;

    #[test]
    fn encodings() {
        let check = |offered: &[&'static str], want: Option<Encoding>| {
            let mut headers = HeaderMap::new();
            for value in offered {
                headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(value));
            }
            assert_eq!(Encoding::choose(&headers).ok(), want, "{offered:?}");
        };
        check(&[], Some(Encoding::Binary { named: false }));
        check(&["binary.k8s.io"], Some(Encoding::Binary { named: true }));
        check(&["v9, base64.binary.k8s.io", "binary.k8s.io"], Some(Encoding::Base64));
        check(&["v4.channel.k8s.io"], None);
    }

    #[tokio::test]
    async fn a_log_in_messages() {
        let check = async |encoding: Encoding, want: [Message; 3]| {
            let (ours, theirs) = tokio::io::duplex(1 << 10);
            let (sender, chunks) = mpsc::channel(4);
            for chunk in ["one\n", "two\n"] {
                sender.send(Bytes::from_static(chunk.as_bytes())).await.unwrap();
            }
            drop(sender);
            let sent = tokio::spawn(send(ours, chunks, encoding));
            let mut client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
            for want in want {
                assert_eq!(client.next().await.unwrap().unwrap(), want);
            }
            assert!(client.next().await.unwrap().unwrap().is_close());
            while let Some(Ok(_)) = client.next().await {}
            sent.await.unwrap().unwrap();
        };
        let binary = |text: &'static str| Message::Binary(Bytes::from_static(text.as_bytes()));
        check(Encoding::Binary { named: true }, [binary(""), binary("one\n"), binary("two\n")]).await;
        check(Encoding::Base64, ["", "b25lCg==", "dHdvCg=="].map(Message::text)).await;
    }
}
