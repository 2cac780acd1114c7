//! Connections that become WebSockets: after the handshake bytes go both ways unseen.
//!
//! Nothing else may be upgraded to: on a connection whose bytes nobody looks at, a client could speak HTTP to the backend
//! past every route (`h2c`). A connection that became a WebSocket keeps its client's place.

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

use crate::body::{BackendBody, RequestBody};
use crate::exchange::{ConnectError, ExchangeError, Wire, dial};
use crate::forward::Failure;
use crate::{Body, Secured, Timeouts, headers};

/// Hands the handshake to one of two backends, on a connection of its own. A backend that declines is not an error: its
/// answer goes to the client.
pub(crate) async fn send_to<H: Send + 'static>(
    [(first, secured), (second, other)]: [(SocketAddr, Secured); 2],
    timeouts: Timeouts,
    request: Request<RequestBody>,
    client: (OnUpgrade, H),
) -> Result<Response<Body>, Failure> {
    let (address, wire) = match dial(first, secured, timeouts.connect).await {
        Ok(wire) => (first, wire),
        Err(_) => {
            let wire = dial(second, other, timeouts.connect).await;
            (second, wire.map_err(|e| Failure::Connect(second, e))?)
        }
    };
    let response = ask(address, wire, timeouts, request).await?;
    Ok(complete(response, timeouts, client))
}

/// A backend's answer to the handshake, which is not bound to the client's connection yet: another backend may be asked.
pub async fn offer(
    address: SocketAddr,
    timeouts: Timeouts,
    request: Request<RequestBody>,
) -> Result<Response<Incoming>, Failure> {
    let wire = dial(address, None, timeouts.connect).await.map_err(|e| Failure::Connect(address, e))?;
    ask(address, wire, timeouts, request).await
}

async fn ask(
    address: SocketAddr,
    wire: Wire,
    timeouts: Timeouts,
    mut request: Request<RequestBody>,
) -> Result<Response<Incoming>, Failure> {
    request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    request.headers_mut().insert(UPGRADE, HeaderValue::from_static(headers::WEBSOCKET));
    let broken = |error| Failure::Exchange(address, ExchangeError::Broken(error));
    let (mut sender, connection) =
        handshake(wire).await.map_err(|e| Failure::Connect(address, ConnectError::Handshake(e)))?;
    tokio::spawn(connection.with_upgrades());
    let answer = timeout(timeouts.answer, sender.send_request(request)).await;
    let response =
        answer.map_err(|_| Failure::Exchange(address, ExchangeError::TimedOut))?.map_err(broken)?;
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if switches && !headers::is_websocket(response.headers()) {
        let error = ExchangeError::Unclear("it changes to a protocol that nobody asked for");
        return Err(Failure::Exchange(address, error));
    }
    Ok(response)
}

/// Binds both connections to each other if the backend agrees; else its answer goes to the client.
pub fn complete<H: Send + 'static>(
    mut response: Response<Incoming>,
    timeouts: Timeouts,
    (client, place): (OnUpgrade, H),
) -> Response<Body> {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return detached(response, timeouts);
    }
    let backend = hyper::upgrade::on(&mut response);
    tokio::spawn(async move {
        match tokio::try_join!(client, backend) {
            Ok((client, backend)) => {
                let (mut client, mut backend) = (TokioIo::new(client), TokioIo::new(backend));
                // However it ends, both sides know.
                let _ = copy_bidirectional(&mut client, &mut backend).await;
                drop(place);
            }
            Err(error) => debug!(%error, "an upgrade did not come about"),
        }
    });
    let (parts, _) = response.into_parts();
    Response::from_parts(parts, Body::Own(None))
}

/// An answer whose connection is driven by its own task, so that the body needs no help.
pub fn detached(response: Response<Incoming>, timeouts: Timeouts) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    headers::for_client(&mut parts.headers);
    Response::from_parts(parts, Body::Backend(Box::new(BackendBody::new(body, None, timeouts.silence))))
}
