//! Switches protocols with the client and with the runtime, and joins the two.

use http::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tracing::debug;

use super::super::answer::{self, Body, Refusal};
use super::subprotocol::Subprotocol;
use super::{backend, ports, websocket};
use crate::cri::StreamFlags;

pub const STREAM_PROTOCOL: &str = "x-stream-protocol-version";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Command(StreamFlags),
    PortForward,
}

pub async fn serve(
    request: Request<Incoming>,
    url: &str,
    protocol: Protocol,
) -> Result<Response<Body>, Refusal> {
    if wants(request.headers(), "websocket") {
        return serve_websocket(request, url, protocol).await;
    }
    if wants(request.headers(), "SPDY/3.1") {
        return serve_spdy(request, url).await;
    }
    Err(Refusal::bad_request("unable to upgrade: missing upgrade headers in request"))
}

/// Whether a client wants to go on in this protocol.
pub fn wants(headers: &HeaderMap, protocol: &str) -> bool {
    let header = headers.get(UPGRADE).and_then(|value| value.to_str().ok());
    header.is_some_and(|value| value.eq_ignore_ascii_case(protocol))
}

/// The subprotocols that a WebSocket client knows.
pub fn offered(headers: &HeaderMap) -> Vec<&str> {
    let lists = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Our side of a WebSocket's handshake. A client that names no subprotocol is told none.
pub fn accept(headers: &HeaderMap, subprotocol: Option<&'static str>) -> Result<Response<Body>, Refusal> {
    let key = headers.get(SEC_WEBSOCKET_KEY);
    let key = key.ok_or_else(|| Refusal::bad_request("Sec-WebSocket-Key is missing"))?;
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).map_err(Refusal::internal)?;
    let mut response = switching("websocket");
    response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(name) = subprotocol {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
    }
    Ok(response)
}

/// Client and runtime speak the same language.
async fn serve_spdy(mut request: Request<Incoming>, url: &str) -> Result<Response<Body>, Refusal> {
    let offered: Vec<_> = request.headers().get_all(STREAM_PROTOCOL).iter().cloned().collect();
    let (accepted, backend) = backend::connect(url, &offered).await?;
    let client = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        match client.await {
            Ok(client) => join(TokioIo::new(client), backend).await,
            Err(error) => debug!(%error, "a client did not switch protocols"),
        }
    });
    let mut response = switching("SPDY/3.1");
    for value in accepted.get_all(STREAM_PROTOCOL) {
        response.headers_mut().append(STREAM_PROTOCOL, value.clone());
    }
    Ok(response)
}

/// Copies both ways. A runtime that no longer listens may still have something to say, so that each way ends
/// by itself.
async fn join(client: impl AsyncRead + AsyncWrite, backend: impl AsyncRead + AsyncWrite) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_backend, mut to_backend) = tokio::io::split(backend);
    let inward = async {
        let copied = copy(&mut from_client, &mut to_backend).await;
        (copied, to_backend.shutdown().await)
    };
    let outward = async {
        let copied = copy(&mut from_backend, &mut to_client).await;
        (copied, to_client.shutdown().await)
    };
    let ended = tokio::join!(inward, outward);
    debug!(?ended, "a stream ended");
}

async fn serve_websocket(
    mut request: Request<Incoming>,
    url: &str,
    protocol: Protocol,
) -> Result<Response<Body>, Refusal> {
    let chosen = choose(request.headers(), protocol)?;
    let response = accept(request.headers(), chosen.name())?;
    let offered = match protocol {
        Protocol::Command(_) => HeaderValue::from_static("v4.channel.k8s.io"),
        Protocol::PortForward => HeaderValue::from_static("portforward.k8s.io"),
    };
    let (_, backend) = backend::connect(url, &[offered]).await?;
    let asked = ports::asked(request.uri().query());
    let client = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let client = match client.await {
            Ok(client) => TokioIo::new(client),
            Err(error) => return debug!(%error, "a client did not switch protocols"),
        };
        let ended = match protocol {
            Protocol::Command(flags) => websocket::translate(client, backend, flags, chosen).await,
            Protocol::PortForward if chosen == Subprotocol::Tunnel => {
                websocket::tunnel(client, backend).await
            }
            Protocol::PortForward => ports::forward(client, backend, &asked, chosen).await,
        };
        debug!(?ended, "a stream ended");
    });
    Ok(response)
}

fn choose(headers: &HeaderMap, protocol: Protocol) -> Result<Subprotocol, Refusal> {
    let offered = offered(headers);
    let chosen = match protocol {
        Protocol::Command(_) => Subprotocol::for_command(&offered),
        Protocol::PortForward => Subprotocol::for_ports(&offered),
    };
    chosen.ok_or_else(|| {
        Refusal::bad_request(format!("none of the offered WebSocket subprotocols {offered:?} is known"))
    })
}

fn switching(protocol: &'static str) -> Response<Body> {
    let mut response = Response::new(answer::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(protocol));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subprotocols_are_read_from_every_header() {
        let flags = StreamFlags { stdin: false, stdout: true, stderr: false, tty: false };
        let check = |offered: &[&'static str], protocol, want: Option<Subprotocol>| {
            let mut headers = HeaderMap::new();
            for value in offered {
                headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(value));
            }
            assert_eq!(choose(&headers, protocol).ok(), want, "{offered:?}");
        };
        let command = Protocol::Command(flags);
        check(&["v4.channel.k8s.io, v5.channel.k8s.io"], command, Some(Subprotocol::V5));
        check(&["v9", "base64.channel.k8s.io"], command, Some(Subprotocol::V1Base64));
        check(&[], command, Some(Subprotocol::Unnamed));
        check(&["v9"], command, None);
        check(&["SPDY/3.1+portforward.k8s.io"], Protocol::PortForward, Some(Subprotocol::Tunnel));
    }
}
