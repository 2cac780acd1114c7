//! Connections that become something else, such as WebSockets: after the handshake bytes go both ways unseen.

use std::net::SocketAddr;

use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::time::timeout;
use tracing::debug;

use super::body::RequestBody;
use super::exchange::{ConnectError, ExchangeError, dial};
use super::forward::Failure;
use super::{Body, Patience, headers};

/// Hands the handshake to a backend, on a connection of its own. A backend that declines is not an error: its
/// answer goes to the client.
pub(super) async fn send(
    endpoints: &[SocketAddr],
    start: usize,
    patience: Patience,
    mut request: Request<RequestBody>,
    protocol: HeaderValue,
    client: OnUpgrade,
) -> Result<Response<Body>, Failure> {
    request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    request.headers_mut().insert(UPGRADE, protocol);
    let (first, second) = (endpoints[start % endpoints.len()], endpoints[(start + 1) % endpoints.len()]);
    let (address, wire) = match dial(first, patience.connect).await {
        Ok(wire) => (first, wire),
        Err(_) => (second, dial(second, patience.connect).await.map_err(|e| Failure::Connect(second, e))?),
    };
    let broken = |error| Failure::Exchange(address, ExchangeError::Broken(error));
    let (mut sender, connection) =
        handshake(wire).await.map_err(|e| Failure::Connect(address, ConnectError::Handshake(e)))?;
    tokio::spawn(connection.with_upgrades());
    let answer = timeout(patience.answer, sender.send_request(request)).await;
    let mut response =
        answer.map_err(|_| Failure::Exchange(address, ExchangeError::TimedOut))?.map_err(broken)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(declined(response));
    }
    let backend = hyper::upgrade::on(&mut response);
    tokio::spawn(async move {
        match tokio::try_join!(client, backend) {
            Ok((client, backend)) => {
                let (mut client, mut backend) = (TokioIo::new(client), TokioIo::new(backend));
                // However it ends, both sides know.
                let _ = copy_bidirectional(&mut client, &mut backend).await;
            }
            Err(error) => debug!(%error, endpoint = %address, "an upgrade did not come about"),
        }
    });
    let (parts, _) = response.into_parts();
    Ok(Response::from_parts(parts, Body::Own(None)))
}

/// The connection is driven by its own task, so the body needs no help.
fn declined(response: Response<Incoming>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    headers::for_client(&mut parts.headers);
    Response::from_parts(parts, Body::Driven(body))
}
