//! Streams of lines over a WebSocket: watches, and what features tell as it comes. A browser opens six connections to a
//! server of HTTP/1.1 and many WebSockets, and a stream holds its connection for as long as somebody looks.
//!
//! A line is a message of text. The answer is made first and as for anybody else; only a good one becomes a WebSocket, so
//! that who may not ask gets the usual refusal. What the client says is not looked at, but that it goes.

use bytes::{Buf, Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use http::header::{
    ACCEPT, CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, BodyStream, Empty};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::answer::Body;

/// Of what a client says, which nobody reads.
const LONGEST_MESSAGE: usize = 4096;

/// A client that wants its answer over a WebSocket.
pub struct Socket {
    client: OnUpgrade,
    accept: HeaderValue,
    /// The first that it offered. Its meaning is the client's own: messages are always lines.
    subprotocol: Option<HeaderValue>,
}

/// The socket that a request asks for, if it does.
pub fn asked_for<B>(request: &mut Request<B>) -> Option<Socket> {
    let headers = request.headers();
    let is_wanted = headers.get(UPGRADE).is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| is_wanted)?;
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok()?;
    let subprotocol = subprotocol(headers);
    // Frames of protobuf are no lines.
    if headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes().windows(8).any(|part| part == b"protobuf"))
    {
        request.headers_mut().remove(ACCEPT);
    }
    Some(Socket { client: hyper::upgrade::on(request), accept, subprotocol })
}

/// A token among them is no protocol, and is not told back.
fn subprotocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let lines = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let mut offered = lines.flat_map(|line| line.split(',')).map(str::trim);
    let first = offered.find(|one| !one.is_empty() && !one.starts_with("base64url.bearer."))?;
    HeaderValue::from_str(first).ok()
}

impl Socket {
    /// Switches protocols and sends the answer's lines, if it is a good one.
    pub fn serve(self, response: Response<Body>) -> Response<Body> {
        if response.status() != StatusCode::OK {
            return response;
        }
        let Socket { client, accept, subprotocol } = self;
        let body = response.into_body();
        tokio::spawn(async move {
            match client.await {
                Ok(client) => {
                    let ended = send(TokioIo::new(client), body).await;
                    tracing::debug!(?ended, "a stream over a WebSocket has ended");
                }
                Err(error) => tracing::debug!(%error, "a client did not switch protocols"),
            }
        });
        let mut switching = Response::new(Empty::new().boxed_unsync());
        *switching.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = switching.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        if let Some(name) = subprotocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, name);
        }
        switching
    }
}

/// Until the answer ends or the client has gone. A line is asked for when the client has taken those before.
async fn send<C>(client: C, body: Body) -> Result<(), Error>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let config = WebSocketConfig::default()
        .read_buffer_size(LONGEST_MESSAGE)
        .max_message_size(Some(LONGEST_MESSAGE))
        .max_frame_size(Some(LONGEST_MESSAGE));
    let mut client = WebSocketStream::from_raw_socket(client, Role::Server, Some(config)).await;
    let mut frames = BodyStream::new(body);
    let mut rest = BytesMut::new();
    loop {
        tokio::select! {
            frame = frames.next() => match frame {
                Some(Ok(frame)) => {
                    rest.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
                    while let Some(line) = take_line(&mut rest) {
                        client.send(Message::text(line)).await?;
                    }
                }
                // It cannot fail.
                Some(Err(never)) => match never {},
                None => {
                    if let Ok(last) = String::from_utf8(rest.to_vec())
                        && !last.is_empty()
                    {
                        client.send(Message::text(last)).await?;
                    }
                    return client.close(None).await;
                }
            },
            message = client.next() => match message.transpose()? {
                Some(Message::Close(_)) | None => return Ok(()),
                Some(_) => {}
            },
        }
    }
}

/// A whole line, without its end.
fn take_line(bytes: &mut BytesMut) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = bytes.split_to(end);
    bytes.advance(1);
    Some(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    fn body(chunks: &'static [&'static str]) -> Body {
        let frames = stream::iter(chunks).map(|chunk| Ok(Frame::data(Bytes::from_static(chunk.as_bytes()))));
        StreamBody::new(frames).boxed_unsync()
    }

    #[tokio::test]
    async fn line_is_a_message_however_it_was_cut() {
        let (ours, theirs) = tokio::io::duplex(1 << 10);
        let sent = tokio::spawn(send(ours, body(&["{\"a\":1}\n{\"b\"", ":2}\n", "\n{\"c\":3}"])));
        let mut client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
        for line in ["{\"a\":1}", "{\"b\":2}", "", "{\"c\":3}"] {
            assert_eq!(client.next().await.unwrap().unwrap(), Message::text(line));
        }
        assert!(client.next().await.unwrap().unwrap().is_close());
        while let Some(Ok(_)) = client.next().await {}
        sent.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn stream_ends_with_its_client() {
        let (ours, theirs) = tokio::io::duplex(1 << 10);
        let forever = StreamBody::new(stream::pending::<Result<Frame<Bytes>, _>>()).boxed_unsync();
        let sent = tokio::spawn(send(ours, forever));
        let mut client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
        client.close(None).await.unwrap();
        while let Some(Ok(_)) = client.next().await {}
        sent.await.unwrap().unwrap();
    }

    #[test]
    fn refusal_stays_as_it_is_and_tokens_are_not_told_back() {
        let mut request = Request::new(());
        assert!(asked_for(&mut request).is_none());
        let headers = request.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        let offered = "base64url.bearer.authorization.k8s.io.c2VjcmV0, lines.example";
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(offered));
        let socket = asked_for(&mut request).unwrap();
        assert_eq!(socket.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(socket.subprotocol.as_ref().unwrap(), "lines.example");
        let mut refused = Response::new(body(&["no"]));
        *refused.status_mut() = StatusCode::FORBIDDEN;
        assert_eq!(socket.serve(refused).status(), StatusCode::FORBIDDEN);
    }
}
