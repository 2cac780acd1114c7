//! Requests that end on a node or in a pod: logs, exec, attach, port-forward, proxy.
//!
//! The API server authorizes and forwards; streams (WebSocket or SPDY) pass through as bytes once both
//! sides have switched protocols, so that their framing is the kubelet's business alone.

mod target;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, HOST, HeaderValue, UPGRADE};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use self::target::Target;
use crate::answer::Body;
use crate::api::Api;
use crate::dispatch::Incoming;
use crate::error::{ApiError, Result};
use crate::registry::Call;

const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

pub struct NodeProxy {
    /// Shows the API server's client certificate to kubelets and trusts the cluster's CA.
    pub kubelet_tls: TlsConnector,
}

impl NodeProxy {
    pub async fn answer<B>(
        &self,
        api: &Arc<Api>,
        call: &Call,
        incoming: Incoming<B>,
    ) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let target = target::find(api, call, &incoming.query, &incoming.info.rest).await?;
        let stream = connect(&target).await?;
        let Some(name) = target.tls.clone() else {
            return forward(incoming.request, &target, stream).await;
        };
        let name = ServerName::try_from(name)
            .map_err(|e| ApiError::internal(format_args!("the node's name is no host name: {e}")))?;
        let handshake = tokio::time::timeout(CONNECT_PATIENCE, self.kubelet_tls.connect(name, stream)).await;
        match handshake {
            Ok(Ok(stream)) => forward(incoming.request, &target, stream).await,
            Ok(Err(e)) => Err(unreachable(&target, e)),
            Err(_) => Err(unreachable(&target, "no answer")),
        }
    }
}

async fn connect(target: &Target) -> Result<TcpStream> {
    let connecting = TcpStream::connect((target.host.as_str(), target.port));
    match tokio::time::timeout(CONNECT_PATIENCE, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(e)) => Err(unreachable(target, e)),
        Err(_) => Err(unreachable(target, "no answer")),
    }
}

fn unreachable(target: &Target, why: impl std::fmt::Display) -> ApiError {
    ApiError::unavailable(format!("error dialing backend {}:{}: {why}", target.host, target.port))
}

async fn forward<B, S>(mut request: Request<B>, target: &Target, stream: S) -> Result<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let client_side = hyper::upgrade::on(&mut request);
    let upgrades = request.headers().contains_key(UPGRADE);
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|e| unreachable(target, e))?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a forwarded connection ended");
        }
    });
    let outgoing = rewritten(request, target)?;
    let mut response = sender.send_request(outgoing).await.map_err(|e| unreachable(target, e))?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        if !upgrades {
            return Err(ApiError::internal("the backend switched protocols without being asked"));
        }
        let backend_side = hyper::upgrade::on(&mut response);
        tokio::spawn(join(client_side, backend_side));
        return Ok(response.map(|_| Empty::new().boxed_unsync()));
    }
    Ok(response.map(|body| StreamedBody(body).boxed_unsync()))
}

/// The same request, for the backend: without our own credentials and host.
fn rewritten<B>(request: Request<B>, target: &Target) -> Result<Request<B>> {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = format!("{}{query}", target.path);
    let uri: Uri = path.parse().map_err(|_| ApiError::bad_request("the path cannot be forwarded"))?;
    let (mut parts, body) = request.into_parts();
    parts.uri = uri;
    parts.version = http::Version::HTTP_11;
    remove_own_headers(&mut parts.headers);
    let host = format!("{}:{}", target.host, target.port);
    if let Ok(host) = HeaderValue::from_str(&host) {
        parts.headers.insert(HOST, host);
    }
    Ok(Request::from_parts(parts, body))
}

fn remove_own_headers(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    let impersonation: Vec<_> =
        headers.keys().filter(|k| k.as_str().starts_with("impersonate-")).cloned().collect();
    for name in impersonation {
        headers.remove(name);
    }
    if !headers.contains_key(UPGRADE) {
        headers.remove(CONNECTION);
    }
}

/// Copies both ways until either side ends.
async fn join(client: OnUpgrade, backend: OnUpgrade) {
    let (client, backend) = match tokio::try_join!(client, backend) {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "a stream was not upgraded");
            return;
        }
    };
    let (mut client, mut backend) = (TokioIo::new(client), TokioIo::new(backend));
    if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut backend).await {
        tracing::debug!(%error, "a stream ended");
    }
}

/// A backend's body. When the backend breaks off, the answer ends: its beginning is already on its way.
struct StreamedBody(hyper::body::Incoming);

impl http_body::Body for StreamedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<std::result::Result<http_body::Frame<Bytes>, Self::Error>>> {
        std::pin::Pin::new(&mut self.0).poll_frame(cx).map(|frame| frame.and_then(|frame| frame.ok()).map(Ok))
    }
}
