//! Calls of a driver over its socket: gRPC's framing of one message each way.
//!
//! Each call has a connection of its own. Drivers start anew while nodes run, calls are rare, and a socket of the same
//! machine is opened in no time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixStream;

use crate::{Call, CallError, Code};

/// Drivers may make file systems meanwhile.
const TIMEOUT: Duration = Duration::from_secs(120);
const LARGEST_ANSWER: usize = 4 << 20;
/// A message's length, and whether it is compressed.
const HEAD: usize = 5;

/// A driver of volumes, by its socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    socket: PathBuf,
}

impl Driver {
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Driver { socket: socket.into() }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub async fn call<C: Call>(&self, call: &C) -> Result<C::Answer, CallError> {
        let answer = self.call_raw(C::SERVICE, C::METHOD, call.encode_to_vec().into()).await?;
        C::Answer::decode(answer)
            .map_err(|error| CallError::Answer { method: C::METHOD.to_owned(), message: error.to_string() })
    }

    /// A message whose content somebody else knows.
    pub async fn call_raw(&self, service: &str, method: &str, message: Bytes) -> Result<Bytes, CallError> {
        let unreachable = |message: String| CallError::Unreachable { method: method.to_owned(), message };
        match tokio::time::timeout(TIMEOUT, self.exchange(service, method, message)).await {
            Ok(Ok((status, body))) => judge(method, status, body),
            Ok(Err(message)) => Err(unreachable(format!("{}: {message}", self.socket.display()))),
            Err(_) => Err(unreachable(format!("no answer within {TIMEOUT:?}"))),
        }
    }

    async fn exchange(
        &self,
        service: &str,
        method: &str,
        message: Bytes,
    ) -> Result<(HeaderMap, Bytes), String> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|e| e.to_string())?;
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(|e| e.to_string())?;
        let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
        let request = Request::post(format!("http://localhost/{service}/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(framed(&message)))
            .map_err(|e| e.to_string())?;
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let headers = response.headers().clone();
        let collected = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let collected = collected.map_err(|e| e.to_string())?;
        // A refusal without a body may stand in the headers alone.
        let status = collected.trailers().cloned().unwrap_or(headers);
        drop(connection);
        Ok((status, collected.to_bytes()))
    }
}

/// Ends with whoever asked, also when nobody waits for the answer any more.
struct Connection(tokio::task::JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(HEAD + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// The message in a frame.
pub(crate) fn unframed(mut body: Bytes) -> Result<Bytes, &'static str> {
    if body.len() < HEAD {
        return Err("it is too short");
    }
    if body.get_u8() != 0 {
        return Err("it is compressed");
    }
    let length = body.get_u32() as usize;
    if body.len() < length {
        return Err("it is cut off");
    }
    Ok(body.split_to(length))
}

fn judge(method: &str, status: HeaderMap, body: Bytes) -> Result<Bytes, CallError> {
    let text = |name: &str| status.get(name).and_then(|value| value.to_str().ok());
    let code = text("grpc-status").and_then(|code| code.parse().ok()).map_or(Code::UNKNOWN, Code);
    if code != Code::OK {
        let message = decoded(text("grpc-message").unwrap_or("the driver gave no reason"));
        return Err(CallError::Refused { method: method.to_owned(), code, message });
    }
    unframed(body)
        .map_err(|message| CallError::Answer { method: method.to_owned(), message: message.to_owned() })
}

/// A message of gRPC has its special characters as `%XX`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_hold_one_message() {
        assert_eq!(framed(b"ab").as_ref(), [0, 0, 0, 0, 2, b'a', b'b']);
        let check = |body: &'static [u8], expected: Result<&[u8], &str>| {
            assert_eq!(unframed(Bytes::from_static(body)).as_deref(), expected.as_deref(), "{body:?}");
        };
        check(&[0, 0, 0, 0, 2, b'a', b'b'], Ok(b"ab"));
        check(&[0, 0, 0, 0, 0], Ok(b""));
        check(&[0, 0, 0, 0, 9, b'a'], Err("it is cut off"));
        check(&[1, 0, 0, 0, 0], Err("it is compressed"));
        check(&[], Err("it is too short"));
    }

    #[test]
    fn refusal_has_the_drivers_words() {
        let mut status = HeaderMap::new();
        status.insert("grpc-status", "5".parse().unwrap());
        status.insert("grpc-message", "volume %22v%22 100%".parse().unwrap());
        let error = judge("NodeStageVolume", status, Bytes::new()).unwrap_err();
        assert_eq!(error.code(), Some(Code::NOT_FOUND));
        let expected = "NodeStageVolume: rpc error: code = NotFound desc = volume \"v\" 100%";
        assert_eq!(error.to_string(), expected);
    }
}
