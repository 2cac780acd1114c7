//! The runtime's end of a stream: an upgraded connection to its local port.

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderValue, UPGRADE};
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::super::answer::Refusal;
use super::upgrade::STREAM_PROTOCOL;

/// Nobody reads a longer error message.
const LARGEST_ERROR: usize = 4096;

pub type Stream = TokioIo<Upgraded>;

/// Switches to SPDY; returns the headers of the answer and the connection.
pub async fn connect(url: &str, protocols: &[HeaderValue]) -> Result<(HeaderMap, Stream), Refusal> {
    let uri: Uri = url.parse().map_err(|e| Refusal::internal(format!("stream address {url:?}: {e}")))?;
    let (host, port) = (uri.host().unwrap_or("127.0.0.1").to_owned(), uri.port_u16().unwrap_or(80));
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(Refusal::internal)?;
    let _ = stream.set_nodelay(true);
    let handshake = http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(Refusal::internal)?;
    tokio::spawn(connection.with_upgrades());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::post(path).body(Empty::new()).map_err(Refusal::internal)?;
    let headers = request.headers_mut();
    let authority = HeaderValue::try_from(format!("{host}:{port}")).map_err(Refusal::internal)?;
    headers.insert(HOST, authority);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    for protocol in protocols {
        headers.append(STREAM_PROTOCOL, protocol.clone());
    }
    let mut response = sender.send_request(request).await.map_err(Refusal::internal)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let body = Limited::new(response.into_body(), LARGEST_ERROR).collect().await;
        let text =
            body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default();
        return Err(Refusal::internal(format!("the runtime did not switch protocols: {text}")));
    }
    let accepted = response.headers().clone();
    let upgraded = hyper::upgrade::on(&mut response).await.map_err(Refusal::internal)?;
    Ok((accepted, TokioIo::new(upgraded)))
}
