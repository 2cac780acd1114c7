//! Requests that are not simply handed over: changed, answered here, copied, tried again, or sent in another
//! protocol.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue, LOCATION};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};

use super::backend::{self, Protocol};
use super::{Mirror, Treatment, Treats, filter};
use crate::forward::{note_unconnected, two_tries};
use crate::{
    Body, Client, ExchangeError, Failure, Refusal, RequestBody, Route, Timeouts, Worker, headers, target,
    upgrade, wants_upgrade,
};

/// Of bodies that must be kept, to be sent again or twice.
const LARGEST_KEPT: usize = 6 << 20;

/// `port` is where the request came in, as the client knows it.
pub async fn treat<F: Treats>(
    worker: &Worker<F>,
    (route, treatment): (&F::Route, &Treatment<F::Route>),
    host: HeaderValue,
    (client, port): (&Client, Option<u16>),
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let asked = request.headers().clone();
    let cors = treatment.filters.iter().find_map(|filters| filters.cors.as_ref());
    if let Some(cors) = cors.filter(|_| filter::is_preflight(request.method(), request.headers())) {
        let mut response = Response::new(Body::Own(None));
        *response.status_mut() = StatusCode::NO_CONTENT;
        *response.headers_mut() = filter::preflight(cors, &asked);
        return Ok(response);
    }
    let mut response = match redirection(treatment, (client, port), &host, &request) {
        Some(response) => response,
        None => forward(worker, route, treatment, host, client, request).await?,
    };
    for change in treatment.filters.iter().rev().filter_map(|filters| filters.response_headers.as_ref()) {
        filter::change_headers(response.headers_mut(), change);
    }
    if let Some(cors) = cors {
        filter::allow(cors, &asked, response.headers_mut());
    }
    Ok(response)
}

fn redirection<R>(
    treatment: &Treatment<R>,
    (client, port): (&Client, Option<u16>),
    host: &HeaderValue,
    request: &Request<Incoming>,
) -> Option<Response<Body>> {
    let wanted = treatment.filters.iter().find_map(|filters| filters.redirect.as_ref())?;
    let asked = filter::Asked {
        scheme: client.protocol(),
        host: host.to_str().unwrap_or_default(),
        path_and_query: request.uri().path_and_query().map_or("/", |all| all.as_str()),
        prefix: treatment.prefix.as_deref(),
        port,
    };
    let (code, place) = filter::redirect(wanted, &asked);
    let mut response = Response::new(Body::Own(None));
    *response.status_mut() = code;
    response.headers_mut().insert(LOCATION, HeaderValue::from_str(&place).ok()?);
    Some(response)
}

async fn forward<F: Treats>(
    worker: &Worker<F>,
    route: &F::Route,
    treatment: &Treatment<F::Route>,
    host: HeaderValue,
    client: &Client,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    if let Some(problem) = &treatment.problem {
        return Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, problem.clone()));
    }
    let endpoints = route.endpoints()?;
    let place = worker.shared.requests.admit(client).ok_or_else(|| {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many requests of this client are not answered yet")
    })?;
    let upgraded = wants_upgrade(&mut request);
    let (mut parts, body) = request.into_parts();
    parts.uri = target(route, &parts.uri)?;
    let has_body = !http_body::Body::is_end_stream(&body);
    headers::for_backend(&mut parts, client, host, None, has_body, F::SAYS_FORWARDED);
    change_request(&mut parts, treatment);
    let mut timeouts = worker.shared.timeouts;
    timeouts.answer = route.timeout().unwrap_or(timeouts.answer);
    let whole = treatment.request_timeout.unwrap_or(Duration::from_secs(3600));
    let sending = async {
        let is_kept = !treatment.mirrors.is_empty() || treatment.retry.is_some();
        let body = match (has_body, is_kept) {
            (false, _) => Kept::Whole(Bytes::new()),
            (true, true) => Kept::Whole(collect(body).await?),
            (true, false) => Kept::Once(RequestBody::new(body)),
        };
        if let Some(upgraded) = upgraded {
            let start = route.first(client, &worker.turn, endpoints.len());
            let request = Request::from_parts(parts, RequestBody::empty());
            let upgraded = (upgraded, client.place.clone());
            let (first, second) = two_tries(&endpoints, start);
            let both = [first, second].map(|address| (address, worker.secured(address)));
            let sent = upgrade::send_to(both, timeouts, request, upgraded).await;
            return sent.map_err(|failure| failure.refusal(route));
        }
        if let Kept::Whole(bytes) = &body {
            copies(worker, treatment, &parts, bytes);
        }
        tries(worker, route, treatment, &endpoints, client, parts, body, timeouts).await
    };
    let response = timeout(whole, sending).await.unwrap_or_else(|_| {
        let text = format!("Service {} did not answer within {whole:?}", route.service());
        Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, text))
    })?;
    Ok(response.map(|body| body.holding(place)))
}

async fn collect(body: Incoming) -> Result<Bytes, Refusal> {
    let whole = Limited::new(body, LARGEST_KEPT).collect().await;
    whole.map(|whole| whole.to_bytes()).map_err(|_| {
        let text = format!("a body that is copied or may be sent again has at most {LARGEST_KEPT} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    })
}

/// A body that can be sent again, or not.
enum Kept {
    Whole(Bytes),
    Once(RequestBody),
}

#[expect(clippy::too_many_arguments, reason = "all of a request, and all about its way")]
async fn tries<F: Treats>(
    worker: &Worker<F>,
    route: &F::Route,
    treatment: &Treatment<F::Route>,
    endpoints: &[SocketAddr],
    client: &Client,
    parts: Parts,
    body: Kept,
    timeouts: Timeouts,
) -> Result<Response<Body>, Refusal> {
    let (bytes, mut once) = match body {
        Kept::Whole(bytes) => (bytes, None),
        Kept::Once(body) => (Bytes::new(), Some(body)),
    };
    let retry = treatment.retry.as_ref();
    let attempts = retry.map_or(0, |retry| retry.attempts);
    let start = route.first(client, &worker.turn, endpoints.len());
    let mut number = 0;
    loop {
        let body = once.take().unwrap_or_else(|| RequestBody::kept(bytes.clone()));
        let request = Request::from_parts(parts.clone(), body);
        let first = start + usize::try_from(number).unwrap_or_default();
        let sent = send(worker, (route, treatment), endpoints, first, timeouts, request).await;
        let is_bad = match &sent {
            Ok(response) => retry.is_some_and(|retry| retry.codes.contains(&response.status().as_u16())),
            Err(_) => retry.is_some(),
        };
        if !is_bad || number >= attempts {
            return sent.map_err(|failure| failure.refusal(route));
        }
        number += 1;
        sleep(Duration::from_millis(retry.map_or(0, |retry| retry.backoff_millis))).await;
    }
}

async fn send<F: Treats>(
    worker: &Worker<F>,
    (route, treatment): (&F::Route, &Treatment<F::Route>),
    endpoints: &[SocketAddr],
    start: usize,
    timeouts: Timeouts,
    request: Request<RequestBody>,
) -> Result<Response<Body>, Failure> {
    let (mut address, second) = two_tries(endpoints, start);
    let response = match Protocol::of(treatment) {
        Protocol::Http => return worker.send(route, endpoints, start, timeouts, request).await,
        Protocol::H2c => {
            // Nothing was sent yet, so another may have it.
            let h2c = &worker.shared.treating().h2c;
            if h2c.get(address, worker.secured(address), timeouts).await.is_err() {
                note_unconnected(route, (address, second));
                address = second;
            }
            let at = (address, worker.secured(address));
            let sent = backend::send_h2c(h2c, at, timeouts, request).await;
            if let Some(failed) = outcome(&sent) {
                route.outcome(address, failed);
            }
            sent?
        }
        Protocol::Tls(tls) => {
            let shown = worker.shared.treating().certificate(tls);
            backend::send_tls((tls, shown), address, timeouts, request).await?
        }
    };
    Ok(worker.noted(address, response))
}

/// Whether an endpoint has failed. An exchange that broke says nothing: clients end requests over HTTP/2 as they like.
fn outcome(sent: &Result<Response<Body>, Failure>) -> Option<bool> {
    match sent {
        Ok(response) => Some(response.status().is_server_error() || is_grpc_failure(response.headers())),
        Err(Failure::Connect(..) | Failure::Exchange(_, ExchangeError::TimedOut)) => Some(true),
        Err(Failure::Exchange(..)) => None,
    }
}

/// Of an answer that says so at once: unknown, deadline exceeded, internal, unavailable, data loss.
fn is_grpc_failure(headers: &HeaderMap) -> bool {
    let code = headers.get("grpc-status").and_then(|code| code.to_str().ok());
    matches!(code, Some("2" | "4" | "13" | "14" | "15"))
}

fn change_request<R>(parts: &mut Parts, treatment: &Treatment<R>) {
    for filters in &treatment.filters {
        if let Some(change) = &filters.request_headers {
            filter::change_headers(&mut parts.headers, change);
        }
        let name = filters.rewrite.as_ref().and_then(|rewrite| rewrite.hostname.as_deref());
        if let Some(Ok(name)) = name.map(HeaderValue::from_str) {
            parts.headers.insert(HOST, name);
        }
    }
}

/// Sends copies of the request, whose answers nobody waits for.
fn copies<F: Treats>(worker: &Worker<F>, treatment: &Treatment<F::Route>, parts: &Parts, body: &Bytes) {
    for mirror in &treatment.mirrors {
        let turn = worker.turn.fetch_add(1, Ordering::Relaxed);
        if !is_copied(mirror, &worker.shared.treating().mirrored) {
            continue;
        }
        let endpoints = &mirror.endpoints;
        if endpoints.is_empty() {
            continue;
        }
        let (address, timeouts) = (endpoints[turn % endpoints.len()], worker.shared.timeouts);
        let at = (address, worker.secured(address));
        let request = copy(&parts.method, parts, body.clone());
        let (target, h2c) = (mirror.target.clone(), worker.shared.treating().h2c.clone());
        tokio::spawn(async move {
            let sent = match (&target.tls, target.h2c) {
                (Some(tls), _) => backend::send_tls((tls, Ok(None)), address, timeouts, request).await,
                (None, true) => backend::send_h2c(&h2c, at, timeouts, request).await,
                (None, false) => backend::send_plain(at, timeouts, request).await,
            };
            if let Err(failure) = sent {
                tracing::debug!(?failure, endpoint = %address, "a copy of a request was not answered");
            }
        });
    }
}

/// Counted, not by chance: after as many requests as the denominator exactly the numerator of them was copied.
fn is_copied(mirror: &Mirror, counter: &std::sync::atomic::AtomicU64) -> bool {
    let (top, bottom) = (u64::from(mirror.numerator), u64::from(mirror.denominator.max(1)));
    let turn = counter.fetch_add(1, Ordering::Relaxed) % bottom;
    (turn + 1) * top / bottom > turn * top / bottom
}

fn copy(method: &Method, parts: &Parts, body: Bytes) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::kept(body));
    *request.method_mut() = method.clone();
    *request.uri_mut() = parts.uri.clone();
    let headers: HeaderMap = parts.headers.clone();
    *request.headers_mut() = headers;
    request
}
