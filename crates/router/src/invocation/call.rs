//! One attempt: a request to this node's own router, which knows where the instances are.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use minik8s_meta::invocation::Invocation;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Config;

/// Longer than any function may take, with the time that it may wait for an instance.
const TIMEOUT: Duration = Duration::from_secs(2 * 3600);
const LARGEST_ANSWER: usize = 6 << 20;

/// Where the router of this node listens.
pub fn own_router(config: &Config) -> Option<SocketAddr> {
    let ip = config.addresses.first().copied().filter(|_| config.http_port != 0)?;
    let ip = if ip.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { ip };
    Some(SocketAddr::new(ip, config.http_port))
}

/// Code and text of the answer.
pub async fn post(
    router: SocketAddr,
    invocation: &Invocation,
    attempt: i32,
) -> Result<(u16, String), String> {
    match timeout(TIMEOUT, ask(router, invocation, attempt)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

async fn ask(
    router: SocketAddr,
    invocation: &Invocation,
    attempt: i32,
) -> Result<(u16, String), Box<dyn std::error::Error + Send + Sync>> {
    let (meta, spec) = (&invocation.metadata, &invocation.spec);
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let stream = TcpStream::connect(router).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::post(format!("/fn/{namespace}/{}", spec.function))
        .header("host", router.to_string())
        .header("accept", "application/json, */*")
        .header("content-type", spec.content_type.as_deref().unwrap_or("application/json"))
        .header("x-request-id", meta.name.as_deref().unwrap_or_default())
        .header("idempotency-key", meta.uid.as_deref().unwrap_or_default())
        .header("minik8s-attempt", attempt)
        .body(Full::new(Bytes::from(spec.payload.clone().unwrap_or_default())))?;
    let answer = sender.send_request(request).await?;
    let code = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), LARGEST_ANSWER).collect().await?.to_bytes();
    Ok((code, String::from_utf8_lossy(&body).into_owned()))
}
