//! From a request to an answer: find the route, pick an endpoint, hand over, try once more where that is safe.

use std::borrow::Cow;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use http::header::{HOST, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use tracing::debug;

use super::answer::Refusal;
use super::body::{BackendBody, RequestBody};
use super::exchange::{ConnectError, ExchangeError, Lease};
use super::{Body, Client, Worker, headers, upgrade};
use crate::Table;
use crate::table::Route;

impl Worker {
    /// The answer, and the host of the route that led to it.
    pub(super) async fn forward(
        &self,
        table: &Table,
        client: &Client,
        request: Request<Incoming>,
    ) -> (Arc<str>, Result<Response<Body>, Refusal>) {
        let (route, host) = match find(table, &request) {
            Ok(found) => found,
            Err(refusal) => return (self.no_host.clone(), Err(refusal)),
        };
        let answer = self.to_backend(route, host, client, request).await;
        (route.host.clone(), answer)
    }

    async fn to_backend(
        &self,
        route: &Route,
        host: HeaderValue,
        client: &Client,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let endpoints = endpoints_of(route)?;
        let start = self.first_try(route, client, endpoints.len());
        let upgraded = wants_upgrade(&mut request);
        let (mut parts, body) = request.into_parts();
        parts.uri = target(route, &parts.uri)?;
        let body = RequestBody::new(body);
        let prefix = route.strip.then_some(route.path.as_str());
        let protocol =
            upgraded.is_some().then(|| parts.headers.get(http::header::UPGRADE).cloned()).flatten();
        headers::for_backend(&mut parts, client, host, prefix, !body.is_empty());
        let request = Request::from_parts(parts, body);
        match upgraded.zip(protocol) {
            Some((upgraded, protocol)) => {
                let patience = self.shared.patience;
                let sent = upgrade::send(&endpoints, start, patience, request, protocol, upgraded).await;
                sent.map_err(|failure| failure.refusal(route))
            }
            None => self.send(&endpoints, start, request).await.map_err(|failure| failure.refusal(route)),
        }
    }

    /// Which endpoint to try first.
    pub(super) fn first_try(&self, route: &Route, client: &Client, count: usize) -> usize {
        if !route.backend.sticky {
            return self.turn.fetch_add(1, Ordering::Relaxed) % count;
        }
        let mut hasher = DefaultHasher::new();
        client.ip.hash(&mut hasher);
        usize::try_from(hasher.finish() % count as u64).unwrap_or_default()
    }

    /// A second try, at the next endpoint and on a new connection, if the first cannot have had an effect.
    async fn send(
        &self,
        endpoints: &[SocketAddr],
        start: usize,
        request: Request<RequestBody>,
    ) -> Result<Response<Body>, Failure> {
        let first = endpoints[start % endpoints.len()];
        let second = endpoints[(start + 1) % endpoints.len()];
        let patience = self.shared.patience;
        let pooled = poll_fn(|cx| Poll::Ready(self.pool.take(first, cx))).await;
        let reused = pooled.is_some();
        let lease = match pooled {
            Some(lease) => Ok(lease),
            None => Lease::connect(first, self.pool.clone(), patience.connect).await,
        };
        let mut lease = match lease {
            Ok(lease) => lease,
            Err(error) => {
                debug!(endpoint = %first, %error, "cannot connect; trying {second}");
                let lease = Lease::connect(second, self.pool.clone(), patience.connect).await;
                return exchange(lease.map_err(|e| Failure::Connect(second, e))?, request, patience).await;
            }
        };
        // A backend may close a waiting connection in the moment it is used: no answer then says nothing about
        // whether the request arrived. What can be repeated without harm is.
        let copy =
            (reused && request.body().is_empty() && is_idempotent(request.method())).then(|| copy(&request));
        let again = match lease.send(request, patience.answer).await {
            Ok(response) => return Ok(finish(response, lease).await),
            Err(ExchangeError::NotSent(request)) => *request,
            Err(ExchangeError::Broken(error)) => {
                copy.ok_or(Failure::Exchange(first, ExchangeError::Broken(error)))?
            }
            Err(error) => return Err(Failure::Exchange(first, error)),
        };
        let lease = Lease::connect(second, self.pool.clone(), patience.connect).await;
        exchange(lease.map_err(|e| Failure::Connect(second, e))?, again, patience).await
    }
}

async fn exchange(
    mut lease: Lease,
    request: Request<RequestBody>,
    patience: super::Patience,
) -> Result<Response<Body>, Failure> {
    let address = lease.address;
    let response = lease.send(request, patience.answer).await.map_err(|e| Failure::Exchange(address, e))?;
    Ok(finish(response, lease).await)
}

/// An answer without a body lets go of its connection at once.
async fn finish(response: Response<Incoming>, lease: Lease) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    headers::for_client(&mut parts.headers);
    if http_body::Body::is_end_stream(&body) {
        let mut lease = Some(lease);
        poll_fn(|cx| Poll::Ready(lease.take().map(|lease| lease.release(cx)))).await;
        return Response::from_parts(parts, Body::Own(None));
    }
    Response::from_parts(parts, Body::Backend(Box::new(BackendBody::new(body, lease))))
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    Connect(SocketAddr, ConnectError),
    Exchange(SocketAddr, ExchangeError),
}

impl Failure {
    pub fn refusal(self, route: &Route) -> Refusal {
        use StatusCode as Code;
        let (status, address, what) = match &self {
            Failure::Connect(address, ConnectError::TimedOut) => {
                (Code::GATEWAY_TIMEOUT, address, "cannot be reached in time".to_owned())
            }
            Failure::Connect(address, error) => {
                (Code::BAD_GATEWAY, address, format!("cannot be reached: {error}"))
            }
            Failure::Exchange(address, ExchangeError::TimedOut) => {
                (Code::GATEWAY_TIMEOUT, address, "did not answer in time".to_owned())
            }
            Failure::Exchange(address, error) => {
                (Code::BAD_GATEWAY, address, format!("gave no answer: {error}"))
            }
        };
        let service = &route.backend.service;
        Refusal::new(status, format!("endpoint {address} of Service {service} {what}"))
    }
}

/// The route, and the host as the backend is to see it.
fn find<'t>(table: &'t Table, request: &Request<Incoming>) -> Result<(&'t Route, HeaderValue), Refusal> {
    let bad = |text: &str| Refusal::new(StatusCode::BAD_REQUEST, text);
    if request.method() == Method::CONNECT {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this is not a forward proxy"));
    }
    // RFC 9112: a target with a host overrules the Host header.
    let host = match request.uri().authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => request.headers().get(HOST).cloned(),
    };
    let host = host.ok_or_else(|| bad("the request names no host"))?;
    let name = host.to_str().map_err(|_| bad("the host is not a name"))?;
    let route = find_route(table, name, request.uri().path())?;
    Ok((route, host))
}

/// The route of a host, as clients write it, and a path.
pub(super) fn find_route<'t>(table: &'t Table, host: &str, path: &str) -> Result<&'t Route, Refusal> {
    if has_dot_segment(path) {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "the path has the elements '.' or '..'"));
    }
    let name = plain_name(host);
    table.find(&name, path).ok_or_else(|| {
        Refusal::new(StatusCode::NOT_FOUND, format!("nothing is routed at host {name}, path {path}"))
    })
}

pub(super) fn endpoints_of(route: &Route) -> Result<Arc<[SocketAddr]>, Refusal> {
    route.backend.endpoints.clone().map_err(|problem| {
        let text = problem.message(&route.backend.service, &route.backend.port);
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
    })
}

/// Without port and last dot, in lower case.
fn plain_name(host: &str) -> Cow<'_, str> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.bytes().any(|b| b.is_ascii_uppercase()) { name.to_ascii_lowercase().into() } else { name.into() }
}

/// Backends resolve them, so a path could lead out of what its prefix allows. Clients resolve them before they ask.
fn has_dot_segment(path: &str) -> bool {
    if !path.contains("/.") && !path.contains('%') {
        return false;
    }
    path.split('/').any(|element| {
        let plain = element.replace("%2e", ".").replace("%2E", ".");
        matches!(plain.as_str(), "." | "..")
    })
}

/// The target as the backend is to see it: path and query alone.
fn target(route: &Route, uri: &Uri) -> Result<Uri, Refusal> {
    let whole = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let plain = uri.authority().is_none() && uri.scheme().is_none();
    match route.rewrite(whole) {
        Cow::Borrowed(same) if plain && same.len() == whole.len() => Ok(uri.clone()),
        new => {
            let parsed = PathAndQuery::try_from(&*new).map(Uri::from);
            parsed.map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "the path cannot be read"))
        }
    }
}

/// Taken before the request is split: hyper gives the connection to whoever asked for it.
fn wants_upgrade(request: &mut Request<Incoming>) -> Option<hyper::upgrade::OnUpgrade> {
    let wants = headers::wants_upgrade(request.version(), request.headers());
    wants.then(|| hyper::upgrade::on(request))
}

pub(super) fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE | Method::TRACE
    )
}

fn copy(request: &Request<RequestBody>) -> Request<RequestBody> {
    let mut copy = Request::new(RequestBody::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (host, name) in [
            ("a.b", "a.b"),
            ("A.b:80", "a.b"),
            ("a.b.", "a.b"),
            ("a.b.:8080", "a.b"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("a:b", "a:b"),
        ] {
            assert_eq!(plain_name(host), name, "{host}");
        }
    }

    #[test]
    fn dot_segments() {
        for (path, has) in [
            ("/a/b", false),
            ("/a/.well-known/x", false),
            ("/a/...", false),
            ("/a%20b", false),
            ("/a/../b", true),
            ("/a/.", true),
            ("/a/%2e%2E/b", true),
            ("/%2e", true),
            ("/.%2e/x", true),
        ] {
            assert_eq!(has_dot_segment(path), has, "{path}");
        }
    }
}
