//! The API as one function from request to answer: over TLS for the world, in process for ourselves.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderName, HeaderValue};
use http::{Method, Request, Response};
use jiff::Timestamp;
use minik8s_api::{Access, Protocol, Route};
use minik8s_auth::User;
use minik8s_telemetry::Tracer;

use crate::aggregator::Aggregator;
use crate::answer::{self, Body};
use crate::audit::{Auditor, Trail};
use crate::authenticator::{Authenticator, Limits, LocalUser, Peer};
use crate::authorizer::{Authorizer, attributes};
use crate::body;
use crate::dispatch::{Incoming, is_long_running};
use crate::error::{ApiError, Result};
use crate::flow::{Arrival, Connection, Flow, InFlight, Level};
use crate::health::{self, Health};
use crate::metrics::Metrics;
use crate::node_proxy::NodeProxy;
use crate::protocol;
use crate::registry::{MAX_BODY, Registry};
use crate::request::{Query, RequestInfo};
use crate::{gzip, session_limits, span, websocket};

/// A request that is neither a watch nor a stream may take this long.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What limited a request, by the uids of the objects.
const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");
/// For pages of pods in a browser: they run as pages of nobody, so that no session of ours is theirs.
const SANDBOX: &str = "sandbox allow-scripts allow-forms allow-popups allow-downloads";

pub struct Api {
    pub registry: Registry,
    pub authenticator: Authenticator,
    pub authorizer: Arc<Authorizer>,
    pub in_flight: InFlight,
    pub metrics: Metrics,
    pub node_proxy: NodeProxy,
    pub health: Arc<Health>,
    pub aggregator: Aggregator,
    /// The certificate of the authority of clients, in PEM.
    pub client_ca: String,
    /// Paths that features answer.
    pub routes: Vec<Route>,
    /// Protocols that features speak.
    pub protocols: Vec<Arc<dyn Protocol>>,
    /// Tells who did what, where somebody wants to know.
    pub auditor: Option<Auditor>,
    /// Tells of requests as spans, where somebody wants to know.
    pub tracer: Option<Tracer>,
}

impl Api {
    /// Answers any request; never fails and never panics.
    pub async fn handle<B>(self: Arc<Self>, mut request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = Instant::now();
        let query = Query::parse(request.uri().query());
        let info = RequestInfo::parse(request.method(), request.uri().path(), &query);
        let snapshot = self.registry.catalog.snapshot();
        let served = snapshot.find(&info.group, &info.version, &info.resource);
        let labels = self.metrics.labels(&info, served.map(|served| served.resource()));
        let is_write = !request.method().is_safe();
        let is_foreign_page = info.subresource == "proxy" && self.is_foreign_page(&request);
        let is_aggregated = self.aggregator.find(&snapshot, &info.path).is_some();
        let is_of_others = is_aggregated || is_passed_on(&info);
        let span = self.tracer.as_ref().map(|tracer| span::begin(tracer, &mut request));
        let trail = self.auditor.as_ref().map(|auditor| auditor.begin(&mut request, &info));
        let is_line_stream = info.verb == "watch" || self.streams(&request, &info);
        let is_stream =
            is_line_stream || is_long_running(request.method(), &info) || self.protocol(&info.path).is_some();
        // Other servers switch protocols themselves.
        let is_own = is_line_stream && !is_aggregated;
        let socket = if is_own { websocket::asked_for(&mut request) } else { None };
        let answered = AssertUnwindSafe(self.limited(request, info, query)).catch_unwind().await;
        let mut response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                if error.code >= 500 {
                    tracing::warn!(code = error.code, %error, "request failed");
                }
                answer::error(&error)
            }
            Err(_) => {
                if let Some(trail) = &trail {
                    trail.panicked();
                }
                answer::error(&ApiError::internal("the request handler panicked; see the server's log"))
            }
        };
        let held = self.in_flight.answers.count(&mut response, is_write).unwrap_or_else(|error| {
            response = answer::error(&error);
            None
        });
        if let Some(sessions) = self.authenticator.sessions.as_ref().filter(|_| is_of_others) {
            sessions.protect(response.headers_mut());
        }
        if is_foreign_page {
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
        }
        let (code, took) = (response.status().as_u16(), started.elapsed());
        if let (Some(tracer), Some(span)) = (&self.tracer, span) {
            span::end(tracer, span, &labels, code, took);
        }
        self.metrics.observe(labels, code, took, span.map(|span| span.context));
        let response = match (&self.auditor, trail) {
            (Some(auditor), Some(trail)) => auditor.finish(trail, response, is_stream).await,
            _ => response,
        };
        let response = gzip::compress(response).await;
        let response = match held {
            Some(held) => held.until_taken(response),
            None => response,
        };
        match socket {
            Some(socket) => socket.serve(response),
            None => response,
        }
    }

    /// Whether a feature answers with a stream of lines.
    fn streams<B>(&self, request: &Request<B>, info: &RequestInfo) -> bool {
        self.handler(info).is_some_and(|handler| handler.streams(request.uri().query().unwrap_or_default()))
    }

    /// Whether a browser asks for a page of a pod: it comes from our own address, and must not be taken for ours.
    fn is_foreign_page<B>(&self, request: &Request<B>) -> bool {
        self.authenticator.sessions.is_some() && request.headers().contains_key("sec-fetch-site")
    }

    async fn limited<B>(
        self: &Arc<Self>,
        request: Request<B>,
        info: RequestInfo,
        query: Query,
    ) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Some(protocol) = self.protocol(&info.path) {
            return Ok(protocol::answer(self, &*protocol, request).await);
        }
        if self.handler(&info).is_some_and(|h| h.is_long_running()) || self.streams(&request, &info) {
            let is_exempt = is_exempt(&request, &info);
            let incoming = self.checked(request, info, query).await?;
            let (incoming, _arrival) = self.arrived(incoming, is_exempt).await?;
            return self.dispatch(incoming).await;
        }
        if is_long_running(request.method(), &info) {
            let incoming = self.checked(request, info, query).await?;
            return self.dispatch(incoming).await;
        }
        match tokio::time::timeout(TIMEOUT, self.whole(request, info, query)).await {
            Ok(answered) => answered,
            Err(_) => Err(ApiError::timeout("request did not complete within the allotted time")),
        }
    }

    /// First who it is, then all of what they say, then a seat: a client that sends slowly, or never ends, holds
    /// nothing that others wait for.
    async fn whole<B>(
        self: &Arc<Self>,
        request: Request<B>,
        info: RequestInfo,
        query: Query,
    ) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_exempt = is_exempt(&request, &info);
        let incoming = self.checked(request, info, query).await?;
        let (incoming, _arrival) = self.arrived(incoming, is_exempt).await?;
        let flow = (!is_exempt).then(|| Flow::of(&incoming.user));
        let flow = flow.filter(|flow| flow.level == Level::Ordinary);
        if let Some(flow) = &flow {
            self.in_flight.answers.admit(flow)?;
        }
        let place = match is_exempt {
            true => None,
            false => Some(self.in_flight.classify(&incoming.user, &attributes(&incoming.info, &[]))?),
        };
        let _seat = match &place {
            Some(place) => self.in_flight.enter(incoming.request.method(), place).await?,
            None => None,
        };
        let mut response = self.work(incoming).await?;
        if let Some(place) = place {
            response.headers_mut().insert(FLOW_SCHEMA, place.schema_uid);
            response.headers_mut().insert(PRIORITY_LEVEL, place.level_uid);
        }
        if let Some(flow) = flow {
            response.extensions_mut().insert(flow);
        }
        Ok(response)
    }

    /// With all of the body, which counts as the user's for as long as what is given with it is kept.
    async fn arrived<B>(
        &self,
        mut incoming: Incoming<B>,
        is_exempt: bool,
    ) -> Result<(Incoming<B>, Option<Arrival>)>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let flow = (!is_exempt).then(|| Flow::of(&incoming.user));
        let mut arrival = self.expect(&incoming, flow.as_ref())?;
        if !may_have_body(&incoming.request) {
            return Ok((incoming, arrival));
        }
        let own = self.handler(&incoming.info);
        let own = own.and_then(|own| own.largest_body(incoming.request.method(), &incoming.info.path));
        let limit = own.unwrap_or(MAX_BODY);
        match body::read(incoming.request.body_mut(), limit, arrival.as_mut()).await {
            Ok(body) => {
                if let Some(trail) = incoming.request.extensions().get::<Trail>() {
                    trail.note_body(&body);
                }
                incoming.body = Some(body);
                Ok((incoming, arrival))
            }
            Err(refusal) => {
                // It counts as the user's for as long as it comes.
                tokio::spawn(async move {
                    body::drain(incoming.request.into_body()).await;
                    drop(arrival);
                });
                Err(refusal)
            }
        }
    }

    /// On the heap: whoever awaits it would keep room for all of it on the stack, which deep bodies need.
    fn work<B>(self: &Arc<Self>, incoming: Incoming<B>) -> BoxFuture<'_, Result<Response<Body>>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.dispatch(incoming).boxed()
    }

    pub(crate) async fn identify(&self, trail: Option<&Trail>, user: &User, impersonated: Option<&User>) {
        if let (Some(auditor), Some(trail)) = (&self.auditor, trail) {
            auditor.identify(trail, user, impersonated).await;
        }
    }

    /// Room for the body, if the request has one and is counted.
    fn expect<B: http_body::Body>(
        &self,
        incoming: &Incoming<B>,
        flow: Option<&Flow>,
    ) -> Result<Option<Arrival>> {
        let flow = flow.filter(|_| may_have_body(&incoming.request));
        let connection = || incoming.request.extensions().get::<Connection>().cloned();
        flow.map(|flow| self.in_flight.arrivals.begin(flow, connection())).transpose()
    }

    /// Who is it, and may they?
    async fn checked<B>(
        &self,
        mut request: Request<B>,
        info: RequestInfo,
        query: Query,
    ) -> Result<Incoming<B>> {
        let access = self.route(&info).map(|route| route.access);
        if access.is_some() || request.headers().contains_key(COOKIE) {
            name_host(&mut request);
        }
        if access == Some(Access::Public) {
            return Ok(Incoming { request, info, query, user: User::anonymous(), body: None });
        }
        let user = self.authenticator.authenticate(&self.registry, &mut request).await?;
        if let Some(Ok(named)) = request.extensions().get::<Peer>().map(|Peer(named)| named.as_ref()) {
            let left = named.until().as_second() - Timestamp::now().as_second();
            self.metrics.observe_certificate(left as f64);
        }
        let trail = request.extensions().get::<Trail>().cloned();
        self.identify(trail.as_ref(), &user, None).await;
        let real = user.clone();
        let user = self.authorizer.impersonate(user, request.headers()).await?;
        if user != real {
            self.identify(trail.as_ref(), &real, Some(&user)).await;
        }
        if access == Some(Access::Authenticated) {
            let is_known = !user.is_anonymous();
            let incoming = Incoming { request, info, query, user, body: None };
            return if is_known { Ok(incoming) } else { Err(ApiError::unauthorized()) };
        }
        if let Some(Limits(limits)) = request.extensions().get() {
            session_limits::check(limits, &info)?;
        }
        self.authorizer.check(&self.registry, &user, &info, &query, trail.as_ref()).await?;
        Ok(Incoming { request, info, query, user, body: None })
    }
}

/// HTTP/2 names the host in the address; here it is looked for among the headers, as in HTTP/1.1.
pub fn name_host<B>(request: &mut Request<B>) {
    let host = request.uri().authority().and_then(|authority| authority.as_str().parse().ok());
    if let (Some(host), false) = (host, request.headers().contains_key(HOST)) {
        request.headers_mut().insert(HOST, host);
    }
}

/// Whether a node or a pod writes the answer.
fn is_passed_on(info: &RequestInfo) -> bool {
    matches!(info.subresource.as_str(), "log" | "exec" | "attach" | "portforward" | "proxy")
}

/// A flood from outside must neither stop the control plane nor make probes restart it.
fn is_exempt<B>(request: &Request<B>, info: &RequestInfo) -> bool {
    request.extensions().get::<LocalUser>().is_some() || health::is_probe(info)
}

/// What a GET says in its body means nothing, and is not read.
fn may_have_body<B: http_body::Body>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
        && !request.body().is_end_stream()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_nodes_and_pods_write_are_told_apart() {
        let check = |path: &str, expected: bool| {
            let info = RequestInfo::parse(&Method::GET, path, &Query::default());
            assert_eq!(is_passed_on(&info), expected, "{path}");
        };
        check("/api/v1/namespaces/ns/pods/p/log", true);
        check("/api/v1/namespaces/ns/pods/p/exec", true);
        check("/api/v1/namespaces/ns/pods/p/attach", true);
        check("/api/v1/namespaces/ns/pods/p/portforward", true);
        check("/api/v1/namespaces/ns/services/s/proxy/x", true);
        check("/api/v1/nodes/n/proxy/metrics", true);
        check("/api/v1/namespaces/ns/pods/p", false);
        check("/api/v1/namespaces/ns/pods/p/status", false);
        check("/ui/", false);
    }
}
