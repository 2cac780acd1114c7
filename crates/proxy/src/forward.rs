//! From a request to an answer: find the route, pick an endpoint, hand over, try once more where that is safe.

use std::borrow::Cow;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::{HOST, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use tracing::debug;

use crate::answer::Refusal;
use crate::body::{BackendBody, RequestBody};
use crate::exchange::{ConnectError, ExchangeError, PooledConnection};
use crate::tap::Endpoint;
use crate::{Body, Client, Front, RequestHead, Route, Timeouts, Worker, headers, trace, upgrade};

impl<F: Front> Worker<F> {
    /// The answer, what it is counted under, and, while somebody taps, what has led it.
    pub(crate) async fn forward(
        &self,
        table: &F::Table,
        client: &Client,
        request: Request<Incoming>,
    ) -> (Arc<str>, Option<String>, Result<Response<Body>, Refusal>) {
        let (route, host) = match find::<F>(table, client, &request) {
            Ok(found) => found,
            Err(refusal) => return (self.no_label.clone(), None, Err(refusal)),
        };
        let answer = self.to_backend(route, host, client, request).await;
        let is_tapped = self.shared.tap.is_on();
        let rule = is_tapped.then(|| route.rule(answer.as_ref().ok().and_then(Endpoint::of))).flatten();
        (route.label().clone(), rule, answer)
    }

    /// Says along with an answer whose it is, while somebody wants to know.
    pub(crate) fn noted(&self, address: SocketAddr, mut response: Response<Body>) -> Response<Body> {
        if self.shared.tap.is_on() {
            response.extensions_mut().insert(Endpoint(address));
        }
        response
    }

    async fn to_backend(
        &self,
        route: &F::Route,
        host: HeaderValue,
        client: &Client,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        if let Some(pause) = route.delay() {
            tokio::time::sleep(pause).await;
        }
        if route.answers_itself() {
            return F::answer(self, route, host, client, request).await;
        }
        let endpoints = route.endpoints_for(client)?;
        let place = self.shared.requests.admit(client).ok_or_else(|| {
            Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many requests of this client are not answered yet",
            )
        })?;
        let start = route.first(client, &self.turn, endpoints.len());
        let upgraded = wants_upgrade(&mut request);
        let (mut parts, body) = request.into_parts();
        parts.uri = target(route, &parts.uri)?;
        let body = RequestBody::new(body);
        headers::for_backend(&mut parts, client, host, route.prefix(), !body.is_empty(), F::SAYS_FORWARDED);
        if F::TRACES && !parts.headers.contains_key(trace::TRACEPARENT) {
            let made = HeaderValue::try_from(trace::TraceContext::new(true).to_string());
            made.map(|value| parts.headers.insert(trace::TRACEPARENT, value)).ok();
        }
        let request = Request::from_parts(parts, body);
        let mut timeouts = self.shared.timeouts;
        timeouts.answer = route.timeout().unwrap_or(timeouts.answer);
        let sent = match upgraded {
            Some(upgraded) => {
                let upgraded = (upgraded, client.place.clone());
                let (first, second) = two_tries(&endpoints, start);
                let both = [first, second].map(|address| (address, self.secured(address)));
                upgrade::send_to(both, timeouts, request, upgraded).await
            }
            None => self.send(route, &endpoints, start, timeouts, request).await,
        };
        let response = sent.map_err(|failure| failure.refusal(route))?;
        Ok(response.map(|body| body.holding(place)))
    }

    /// A second try, at the next endpoint and on a new connection, if the first cannot have had an effect.
    pub async fn send(
        &self,
        route: &F::Route,
        endpoints: &[SocketAddr],
        start: usize,
        timeouts: Timeouts,
        request: Request<RequestBody>,
    ) -> Result<Response<Body>, Failure> {
        let (first, second) = two_tries(endpoints, start);
        let pooled = self.pooled(first).await;
        let reused = pooled.is_some();
        let lease = match pooled {
            Some(lease) => Ok(lease),
            None => self.connect(first, timeouts.connect).await,
        };
        let mut lease = match lease {
            Ok(lease) => lease,
            Err(error) => {
                debug!(endpoint = %first, %error, "cannot connect; trying {second}");
                note_unconnected(route, (first, second));
                return self.send_anew(route, second, timeouts, request).await;
            }
        };
        // A backend may close a waiting connection in the moment it is used: no answer then says nothing about
        // whether the request arrived. What can be repeated without harm is.
        let copy =
            (reused && request.body().is_empty() && is_idempotent(request.method())).then(|| copy(&request));
        let failure = match (lease.send(request, timeouts.answer).await, copy) {
            (Ok(response), _) => {
                route.outcome(first, response.status().is_server_error());
                return Ok(self.noted(first, finish(response, lease, timeouts.silence).await));
            }
            (Err(ExchangeError::NotSent(request)), _) => {
                return self.send_anew(route, second, timeouts, *request).await;
            }
            (Err(ExchangeError::Broken(_)), Some(copy)) => {
                return self.send_anew(route, second, timeouts, copy).await;
            }
            (Err(error), _) => Failure::Exchange(first, error),
        };
        if failure.is_of_endpoint() {
            route.outcome(first, true);
        }
        Err(failure)
    }

    /// On a new connection, and only there.
    async fn send_anew(
        &self,
        route: &F::Route,
        address: SocketAddr,
        timeouts: Timeouts,
        request: Request<RequestBody>,
    ) -> Result<Response<Body>, Failure> {
        let sent = match self.connect(address, timeouts.connect).await {
            Ok(lease) => exchange(lease, request, timeouts).await,
            Err(error) => Err(Failure::Connect(address, error)),
        };
        match &sent {
            Ok(response) => route.outcome(address, response.status().is_server_error()),
            Err(failure) if failure.is_of_endpoint() => route.outcome(address, true),
            Err(_) => {}
        }
        Ok(self.noted(address, sent?))
    }
}

async fn exchange(
    mut lease: PooledConnection,
    request: Request<RequestBody>,
    timeouts: Timeouts,
) -> Result<Response<Body>, Failure> {
    let address = lease.address;
    let response = lease.send(request, timeouts.answer).await.map_err(|e| Failure::Exchange(address, e))?;
    Ok(finish(response, lease, timeouts.silence).await)
}

/// An answer without a body lets go of its connection at once.
pub async fn finish(
    response: Response<Incoming>,
    lease: PooledConnection,
    silence: Duration,
) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    headers::for_client(&mut parts.headers);
    if http_body::Body::is_end_stream(&body) {
        let mut lease = Some(lease);
        poll_fn(|cx| Poll::Ready(lease.take().map(|lease| lease.release(cx)))).await;
        return Response::from_parts(parts, Body::Own(None));
    }
    Response::from_parts(parts, Body::Backend(Box::new(BackendBody::new(body, Some(lease), silence))))
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    Connect(SocketAddr, ConnectError),
    Exchange(SocketAddr, ExchangeError),
}

impl Failure {
    /// Whether the endpoint is to blame, and not a client whose body has ended early.
    pub fn is_of_endpoint(&self) -> bool {
        !matches!(self, Failure::Exchange(_, ExchangeError::Broken(error)) if error.is_user())
    }

    pub fn refusal(self, route: &impl Route) -> Refusal {
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
        Refusal::new(status, format!("endpoint {address} of Service {} {what}", route.service()))
    }
}

/// The endpoint to try, and another one, if there is any, to try after it.
pub(crate) fn two_tries(endpoints: &[SocketAddr], start: usize) -> (SocketAddr, SocketAddr) {
    let at = |number: usize| endpoints[number % endpoints.len()];
    let first = at(start);
    let second = (1..endpoints.len()).map(|more| at(start + more)).find(|other| *other != first);
    (first, second.unwrap_or(first))
}

/// Counts for the first endpoint that it took no connection, before the second is tried. Where there is no other, that try is
/// part of the same attempt, and its end counts alone: an endpoint does not fail twice in a row by one attempt.
pub(crate) fn note_unconnected(route: &impl Route, (first, second): (SocketAddr, SocketAddr)) {
    if first != second {
        route.outcome(first, true);
    }
}

/// The route, and the host as the backend is to see it.
fn find<'t, F: Front>(
    table: &'t F::Table,
    client: &Client,
    request: &Request<Incoming>,
) -> Result<(&'t F::Route, HeaderValue), Refusal> {
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
    let head = RequestHead {
        method: request.method().as_str(),
        host: name,
        target: request.uri().path_and_query().map_or("/", PathAndQuery::as_str),
        headers: request.headers(),
    };
    let route = F::find(table, client, &head)?;
    Ok((route, host))
}

/// Whether a backend that has answered may get the next request on the same connection. Backends that do not expect a
/// body take what they left unread of it for the next request.
pub(crate) fn leaves_nothing(method: &Method, has_body: bool) -> bool {
    !has_body || matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

/// The target as the backend is to see it: path and query alone.
pub fn target(route: &impl Route, uri: &Uri) -> Result<Uri, Refusal> {
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
pub fn wants_upgrade(request: &mut Request<Incoming>) -> Option<hyper::upgrade::OnUpgrade> {
    let wants = headers::wants_websocket(request.version(), request.method(), request.headers());
    let has_body = !http_body::Body::is_end_stream(request.body());
    (wants && !has_body).then(|| hyper::upgrade::on(request))
}

pub(crate) fn is_idempotent(method: &Method) -> bool {
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
