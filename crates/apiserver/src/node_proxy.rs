//! Requests that end on a node or in a pod: logs, exec, attach, port-forward, proxy.
//!
//! The API server authorizes and forwards; streams (WebSocket or SPDY) pass through as bytes once both
//! sides have switched protocols, so that their framing is the kubelet's business alone.

mod address;
mod links;
mod page;
mod target;
mod unverified;

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, UPGRADE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use self::target::{Security, Target, service_endpoint};
pub use self::unverified::AnyCertificate;

use self::links::Place;
use crate::answer::{self, Body};
use crate::api::Api;
use crate::dispatch::Incoming;
use crate::error::{ApiError, Result};
use crate::registry::Call;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The path as the client wrote it, up to and with `proxy`.
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

pub struct NodeProxy {
    /// Shows the API server's client certificate to kubelets and trusts the cluster's CA.
    pub kubelet_tls: TlsConnector,
    /// Shows nothing and trusts anybody.
    pub pod_tls: TlsConnector,
    /// Where others reach this server.
    pub own: IpAddr,
}

impl NodeProxy {
    pub fn new(kubelet_tls: TlsConnector, own: IpAddr) -> std::result::Result<Self, rustls::Error> {
        Ok(NodeProxy { kubelet_tls, pod_tls: unverified::connector()?, own })
    }

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
        let request = incoming.request;
        let place = (call.subresource == "proxy").then(|| place(request.uri().path(), &target));
        if let Some(redirect) = place.as_ref().and_then(|_| with_slash(&request, &target)) {
            return Ok(redirect);
        }
        let stream = connect(&target).await?;
        let (name, tls) = match &target.security {
            Security::Plain => return forward(request, &target, place, stream).await,
            Security::Unverified => (ServerName::from(target.address.ip()), &self.pod_tls),
            Security::Kubelet(name) => (host_name(name)?, &self.kubelet_tls),
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, tls.connect(name, stream)).await {
            Ok(Ok(stream)) => forward(request, &target, place, stream).await,
            Ok(Err(e)) => Err(unreachable(&target, e)),
            Err(_) => Err(unreachable(&target, "no answer")),
        }
    }
}

fn host_name(name: &str) -> Result<ServerName<'static>> {
    let name = ServerName::try_from(name.to_owned());
    name.map_err(|e| ApiError::internal(format_args!("the node's name is no host name: {e}")))
}

fn place(path: &str, target: &Target) -> Place {
    let prefix = path.strip_suffix(&target.path).unwrap_or(path);
    Place { prefix: format!("/{}", prefix.trim_matches('/')), host: target.address.to_string() }
}

/// A browser that is at `…/proxy` would look for relative links beside it: it is sent to `…/proxy/`.
fn with_slash<B>(request: &Request<B>, target: &Target) -> Option<Response<Body>> {
    let looks = matches!(*request.method(), Method::GET | Method::HEAD);
    if !target.path.is_empty() || !looks || request.headers().contains_key(UPGRADE) {
        return None;
    }
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    // A path with two slashes before it would be another host.
    let path = request.uri().path().trim_start_matches('/');
    let location = HeaderValue::try_from(format!("/{path}/{query}")).ok()?;
    let mut redirect = answer::text(301, "");
    redirect.headers_mut().insert(LOCATION, location);
    Some(redirect)
}

async fn connect(target: &Target) -> Result<TcpStream> {
    let connecting = TcpStream::connect(target.address);
    match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(e)) => Err(unreachable(target, e)),
        Err(_) => Err(unreachable(target, "no answer")),
    }
}

fn unreachable(target: &Target, why: impl std::fmt::Display) -> ApiError {
    ApiError::unavailable(format!("error dialing backend {}: {why}", target.address))
}

/// `place`: what is proxied, so that its links must be moved.
pub async fn forward<B, S>(
    mut request: Request<B>,
    target: &Target,
    place: Option<Place>,
    stream: S,
) -> Result<Response<Body>>
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
    let outgoing = rewritten(request, target, place.as_ref())?;
    let mut response = sender.send_request(outgoing).await.map_err(|e| unreachable(target, e))?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        if !upgrades {
            return Err(ApiError::internal("the backend switched protocols without being asked"));
        }
        let backend_side = hyper::upgrade::on(&mut response);
        tokio::spawn(join(client_side, backend_side));
        return Ok(response.map(|_| Empty::new().boxed_unsync()));
    }
    Ok(match place {
        Some(place) => page::moved(response, place),
        None => response.map(|body| page::Streamed(body).boxed_unsync()),
    })
}

/// The same request, for the backend: without our own credentials and host.
fn rewritten<B>(request: Request<B>, target: &Target, place: Option<&Place>) -> Result<Request<B>> {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = if target.path.is_empty() { "/" } else { &target.path };
    let uri: Uri = format!("{path}{query}")
        .parse()
        .map_err(|_| ApiError::bad_request("the path cannot be forwarded"))?;
    let (mut parts, body) = request.into_parts();
    parts.uri = uri;
    parts.version = http::Version::HTTP_11;
    remove_own_headers(&mut parts.headers);
    if let Ok(host) = HeaderValue::try_from(target.address.to_string()) {
        parts.headers.insert(HOST, host);
    }
    if let Some(place) = place {
        let accepts = parts.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        if accepts.contains("text/html") {
            // A page whose links are to be moved must be readable here.
            parts.headers.remove(ACCEPT_ENCODING);
        }
        if let Ok(uri) = HeaderValue::try_from(format!("{}{path}", place.prefix)) {
            parts.headers.insert(FORWARDED_URI, uri);
        }
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

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const PREFIX: &str = "/api/v1/namespaces/default/pods/p/proxy";

    fn target(path: &str) -> Target {
        let address = "10.244.0.7:8080".parse().unwrap();
        Target { address, security: Security::Plain, path: path.to_owned() }
    }

    fn request(method: &str, path: &str) -> Request<Full<Bytes>> {
        let request = Request::builder().method(method).uri(format!("{PREFIX}{path}"));
        let request = request.header(AUTHORIZATION, "Bearer secret").header(ACCEPT, "text/html,*/*");
        request.header(ACCEPT_ENCODING, "gzip").body(Full::default()).unwrap()
    }

    /// What the backend is sent, and what the client gets of its answer.
    async fn through(request: Request<Full<Bytes>>, path: &str, answer: &str) -> (String, Response<Bytes>) {
        let (ours, mut backend) = tokio::io::duplex(1 << 16);
        let answer = answer.to_owned();
        let served = tokio::spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(backend.read_u8().await.unwrap());
            }
            backend.write_all(answer.as_bytes()).await.unwrap();
            backend.shutdown().await.unwrap();
            String::from_utf8(head).unwrap()
        });
        let place = place(request.uri().path(), &target(path));
        let answered = forward(request, &target(path), Some(place), ours).await.unwrap();
        let (parts, body) = answered.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (served.await.unwrap(), Response::from_parts(parts, body))
    }

    #[tokio::test]
    async fn proxy_passes_the_path_on_unchanged() {
        for path in ["/", "/a%20b/", "/a%3Fb", "/a//b/", "/x/../y", "/%2e%2e/%2F"] {
            let (head, _) =
                through(request("GET", &format!("{path}?q=%20")), path, "HTTP/1.1 204 No Content\r\n\r\n")
                    .await;
            assert!(head.starts_with(&format!("GET {path}?q=%20 HTTP/1.1\r\n")), "{path}: {head}");
            assert!(head.contains(&format!("x-forwarded-uri: {PREFIX}{path}\r\n")), "{head}");
            assert!(!head.contains("authorization") && !head.contains("accept-encoding"), "{head}");
            assert!(head.contains("host: 10.244.0.7:8080\r\n"), "{head}");
        }
    }

    #[tokio::test]
    async fn proxy_moves_links_and_redirects_below_its_path() {
        let page = r#"<a href="/x">"#;
        let html = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}",
            page.len()
        );
        let (_, answer) = through(request("GET", "/"), "/", &html).await;
        assert_eq!(answer.body(), format!(r#"<a href="{PREFIX}/x">"#).as_bytes());
        assert!(!answer.headers().contains_key("content-length"), "it is another length now");
        let (_, plain) = through(request("GET", "/"), "/", &html.replace("text/html", "text/plain")).await;
        assert_eq!(plain.body(), page.as_bytes());
        let packed = html.replace("content-type", "content-encoding: br\r\ncontent-type");
        assert_eq!(through(request("GET", "/"), "/", &packed).await.1.body(), page.as_bytes());
        let found = "HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n";
        let (_, answer) = through(request("GET", "/"), "/", found).await;
        assert_eq!(answer.headers()[LOCATION], format!("{PREFIX}/login"));
    }

    #[test]
    fn proxy_without_a_slash_redirects_to_one() {
        let check = |method: &str, path: &str, rest: &str, expected: Option<&str>| {
            let redirect = with_slash(&request(method, path), &target(rest));
            assert!(redirect.iter().all(|redirect| redirect.status() == 301));
            let location = redirect.map(|redirect| redirect.headers()[LOCATION].to_str().unwrap().to_owned());
            assert_eq!(location, expected.map(|expected| format!("{PREFIX}{expected}")), "{method} {path}");
        };
        check("GET", "", "", Some("/"));
        check("HEAD", "?method=GET", "", Some("/?method=GET"));
        let elsewhere = Request::get(format!("//evil.example.com{PREFIX}")).body(()).unwrap();
        let redirect = with_slash(&elsewhere, &target("")).unwrap();
        assert_eq!(redirect.headers()[LOCATION], format!("/evil.example.com{PREFIX}/"));
        check("POST", "", "", None);
        check("GET", "/", "/", None);
        check("GET", "/x", "/x", None);
        let mut upgrade = request("GET", "");
        upgrade.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        assert!(with_slash(&upgrade, &target("")).is_none());
    }
}
