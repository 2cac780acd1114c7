//! The health service that gRPC servers implement: one call, one small message each way.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::handler::{Origin, authority, connect};

const SERVING: u64 = 1;
const LARGEST_ANSWER: usize = 4096;

pub async fn check(
    (host, port): (&str, u16),
    origin: &Origin,
    service: &str,
    timeout: Duration,
) -> Result<(), String> {
    match tokio::time::timeout(timeout, ask((host, port), origin, service, timeout)).await {
        Ok(result) => result,
        Err(_) => {
            let authority = authority(host, port);
            Err(format!("timeout: failed to connect service {authority} within {timeout:?}"))
        }
    }
}

async fn ask(
    (host, port): (&str, u16),
    origin: &Origin,
    service: &str,
    timeout: Duration,
) -> Result<(), String> {
    let stream = connect(host, port, origin, timeout).await?;
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|e| e.to_string())?;
    let connection = tokio::spawn(connection);
    let authority = authority(host, port);
    let request = Request::post(format!("http://{authority}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(message(service)))
        .map_err(|e| e.to_string())?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let header_status = response.headers().get("grpc-status").cloned();
        let collected = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let collected = collected.map_err(|e| e.to_string())?;
        let status = collected.trailers().and_then(|t| t.get("grpc-status")).cloned().or(header_status);
        verdict(status.as_ref().and_then(|s| s.to_str().ok()), collected.to_bytes())
    };
    let answer = answer.await;
    connection.abort();
    answer
}

/// A message with one string field, as gRPC frames it.
fn message(service: &str) -> Bytes {
    let service = service.get(..service.len().min(127)).unwrap_or_default();
    let mut body = BytesMut::new();
    if !service.is_empty() {
        body.put_u8(0x0a);
        body.put_u8(service.len() as u8);
        body.put_slice(service.as_bytes());
    }
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(body.len() as u32);
    framed.put_slice(&body);
    framed.freeze()
}

fn verdict(status: Option<&str>, mut body: Bytes) -> Result<(), String> {
    match status {
        None | Some("0") => {}
        Some("12") => return Err("error: this server does not implement the grpc health protocol".to_owned()),
        Some("5") => return Err("service unknown".to_owned()),
        Some(code) => return Err(format!("rpc error: code {code}")),
    }
    if body.len() < 5 {
        return Err("service unhealthy (responded with \"UNKNOWN\")".to_owned());
    }
    body.advance(5);
    // Field 1, a small number.
    match body.as_ref() {
        [0x08, state, ..] if u64::from(*state) == SERVING => Ok(()),
        [0x08, 2, ..] => Err("service unhealthy (responded with \"NOT_SERVING\")".to_owned()),
        _ => Err("service unhealthy (responded with \"UNKNOWN\")".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        assert_eq!(message("").as_ref(), [0, 0, 0, 0, 0]);
        assert_eq!(message("ab").as_ref(), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
    }

    #[test]
    fn verdicts() {
        let check = |status: Option<&str>, body: &'static [u8], ok: bool| {
            assert_eq!(verdict(status, Bytes::from_static(body)).is_ok(), ok, "{status:?} {body:?}");
        };
        check(Some("0"), &[0, 0, 0, 0, 2, 8, 1], true);
        check(None, &[0, 0, 0, 0, 2, 8, 1], true);
        check(Some("0"), &[0, 0, 0, 0, 2, 8, 2], false);
        check(Some("0"), &[0, 0, 0, 0, 0], false);
        check(Some("0"), &[], false);
        check(Some("12"), &[], false);
    }
}
