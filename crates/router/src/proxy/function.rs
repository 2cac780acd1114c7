//! Requests to functions: each waits for a place in an instance, and is sent again where nothing was executed.
//!
//! Bodies are kept until the answer has begun, so that a request can go elsewhere; they are bounded. What a handler has
//! begun is never repeated, but for a GET or HEAD without a body whose instance is lost, once.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::debug;

use minik8s_proxy::{
    ExchangeError, Failure, PooledConnection, Refusal, RequestBody, finish, headers, target, upgrade,
    wants_upgrade,
};

use super::{Body, Client, Timeouts, Worker, instance, kept};
use crate::gate::{CallRecord, Gate, Name, Permit, Refused};
use crate::invocation::{Delivery, EVENTS};
use crate::table::Route;

/// Of a request's body.
const LARGEST_BODY: usize = 6 << 20;
/// An instance says so in an answer to a request that no handler has seen.
pub(super) const NOT_EXECUTED: &str = "minik8s-not-executed";
/// Whether a function's answer is a handler's failure.
const FUNCTION_ERROR: &str = "minik8s-function-error";
/// Between tries at an instance that does not listen yet: at first a quarter of the time that it has taken.
const FIRST_KNOCK: Duration = Duration::from_millis(1);
const KNOCK: Duration = Duration::from_millis(10);
/// Over the handler's own time limit, which the instance keeps.
pub(super) const SLACK: Duration = Duration::from_secs(5);
/// Until an instance that is there must have accepted a connection.
pub(super) const CONNECT: Duration = Duration::from_secs(3);

/// How one try ended without an answer to pass on.
enum Miss {
    /// No handler has seen it: another instance may.
    NotExecuted,
    /// The instance ended while a handler may have worked on it.
    Lost(Response<Body>),
    Failed(Response<Body>),
}

pub(super) async fn to_function(
    worker: &Worker,
    route: &Route,
    host: HeaderValue,
    client: &Client,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let shared = &worker.shared;
    let missing = || Refusal::new(StatusCode::NOT_FOUND, "this leads to no function");
    let function = route.function.as_ref().ok_or_else(missing)?;
    if function.1 == EVENTS {
        return take_event(worker, client, request).await;
    }
    let unknown =
        || Refusal::new(StatusCode::NOT_FOUND, format!("there is no function {}/{}", function.0, function.1));
    let gate = shared.gates.get(function).ok_or_else(unknown)?;
    let place = shared.requests.admit(client).ok_or_else(too_many)?;
    let upgraded = wants_upgrade(&mut request);
    let (mut parts, body) = request.into_parts();
    parts.uri = target(route, &parts.uri)?;
    let body = match collect(body, shared.timeouts).await {
        Ok(body) => body,
        Err(answer) => return Ok(*answer),
    };
    let prefix = route.strip.then_some(route.path.as_str()).filter(|path| *path != "/");
    headers::for_backend(&mut parts, client, host, prefix, !body.is_empty(), true);
    // The instance's word: who sends back what it gets would be asked again and again.
    parts.headers.remove(NOT_EXECUTED);
    let tells = instance::is_asked(&mut parts.headers);
    if kept::is_asked(&parts) {
        return Ok(kept::ask(worker, &gate, &parts, tells).await.map(|body| body.holding(place)));
    }
    if wants_no_answer(&parts.headers) {
        return Ok(accept(worker, function, &parts.headers, body).await);
    }
    let call = Call { worker, gate, parts, body, tells };
    let answer = match upgraded {
        Some(upgraded) => call.upgrade(upgraded, client).await,
        None => call.run().await,
    };
    Ok(answer.map(|body| body.holding(place)))
}

/// An event is answered once all that it fires is kept.
async fn take_event(
    worker: &Worker,
    client: &Client,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "events are posted"));
    }
    let shared = &worker.shared;
    let _place = shared.requests.admit(client).ok_or_else(too_many)?;
    let (parts, body) = request.into_parts();
    let body = match collect(body, shared.timeouts).await {
        Ok(body) => body,
        Err(answer) => return Ok(*answer),
    };
    let delivery = Delivery::new(parts.uri.path(), &parts.headers, body).ok_or_else(|| {
        let told = "events are posted to /fn/NAMESPACE/-/events or /fn/NAMESPACE/-/hooks/TRIGGER";
        Refusal::new(StatusCode::NOT_FOUND, told)
    })?;
    Ok(match shared.acceptor.deliver(delivery).await {
        Ok((StatusCode::ACCEPTED, text)) => accepted(text),
        Ok((code, text)) => problem(code, code.canonical_reason().unwrap_or_default(), text.trim()),
        Err(message) => problem(StatusCode::SERVICE_UNAVAILABLE, "NotAccepted", &message),
    })
}

fn too_many() -> Refusal {
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too many requests of this client are not answered yet")
}

/// The call is kept before it is answered.
async fn accept(
    worker: &Worker,
    function: &(String, String),
    headers: &HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let Ok(payload) = String::from_utf8(body.into()) else {
        return problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "NotText",
            "only text can be called with respond-async",
        );
    };
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("application/json");
    match worker.shared.acceptor.accept(function, payload, kind.to_owned()).await {
        Ok(name) => {
            let text = json!({"id": name, "namespace": function.0, "function": function.1});
            let mut response = accepted(format!("{text}\n"));
            response.headers_mut().insert("preference-applied", HeaderValue::from_static("respond-async"));
            response
        }
        Err(message) => problem(StatusCode::SERVICE_UNAVAILABLE, "NotAccepted", &message),
    }
}

fn accepted(text: String) -> Response<Body> {
    let mut response = Response::new(Body::Own(Some(Bytes::from(text))));
    *response.status_mut() = StatusCode::ACCEPTED;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// RFC 7240.
fn wants_no_answer(headers: &HeaderMap) -> bool {
    let preferences = headers.get_all("prefer").into_iter().filter_map(|one| one.to_str().ok());
    preferences.flat_map(|one| one.split(',')).any(|one| one.trim().eq_ignore_ascii_case("respond-async"))
}

/// One request, as often as it is sent.
struct Call<'a> {
    worker: &'a Worker,
    gate: Arc<Gate>,
    parts: Parts,
    body: Bytes,
    /// The caller wants to know which instance it was.
    tells: bool,
}

impl Call<'_> {
    async fn run(&self) -> Response<Body> {
        let mut record = self.gate.begin_call(&self.parts.method);
        match self.send(&mut record).await {
            Ok((mut answer, permit)) => {
                record.answered(answer.status());
                if self.tells {
                    instance::tell(answer.headers_mut(), &self.gate, permit.address, Some(record.is_cold()));
                }
                // The call is over when its answer is.
                answer.map(|body| body.permitted((permit, record)))
            }
            Err(answer) => {
                record.answered(answer.status());
                *answer
            }
        }
    }

    /// An instance's answer with the place that it holds, or the router's own.
    async fn send(&self, record: &mut CallRecord) -> Result<(Response<Body>, Permit), Box<Response<Body>>> {
        let deadline = Instant::now() + self.gate.limits().0;
        let mut may_repeat = self.is_safe();
        loop {
            let permit = match self.gate.acquire(deadline).await {
                Ok(permit) => permit,
                Err(refused) => return Err(Box::new(self.refuse(&refused))),
            };
            match self.try_at(permit, deadline, record).await {
                Ok(answered) => return Ok(answered),
                Err(Miss::NotExecuted) => record.turned_away(),
                Err(Miss::Lost(_)) if may_repeat && Instant::now() < deadline => {
                    may_repeat = false;
                    record.turned_away();
                }
                Err(Miss::Failed(answer) | Miss::Lost(answer)) => return Err(Box::new(answer)),
            }
            if Instant::now() >= deadline {
                return Err(Box::new(self.refuse(&Refused::Late(self.gate.limits().0))));
            }
            sleep(KNOCK).await;
        }
    }

    async fn try_at(
        &self,
        permit: Permit,
        deadline: Instant,
        record: &mut CallRecord,
    ) -> Result<(Response<Body>, Permit), Miss> {
        let address = permit.address;
        let mut lease = self.connect(&permit, deadline).await?;
        record.connected(address, permit.ready);
        let timeouts = self.gate.limits().1 + SLACK;
        let response = match lease.send(self.request(), timeouts).await {
            Ok(response) => response,
            Err(ExchangeError::NotSent(_) | ExchangeError::Unsent(_)) => return Err(Miss::NotExecuted),
            Err(ExchangeError::TimedOut) => {
                let message = format!("no answer in {} s", timeouts.as_secs());
                return Err(Miss::Failed(problem(StatusCode::GATEWAY_TIMEOUT, "Timeout", &message)));
            }
            Err(error) => {
                let message =
                    format!("the instance at {address} ended while it worked on the request: {error}");
                let answer = problem(StatusCode::BAD_GATEWAY, "InstanceLost", &message);
                return Err(match error {
                    ExchangeError::Unclear(_) => Miss::Failed(answer),
                    _ => Miss::Lost(answer),
                });
            }
        };
        let refusal = response.headers().get(NOT_EXECUTED).cloned();
        let response = finish(response, lease, self.worker.shared.timeouts.silence).await;
        match refusal {
            None => Ok((response, permit)),
            Some(why) => {
                debug!(instance = %address, ?why, "an instance took no request");
                if why.as_bytes() == b"draining" {
                    self.gate.mark_leaving(address);
                }
                Err(Miss::NotExecuted)
            }
        }
    }

    /// One that has just been started may not listen yet: it is asked again until it does, or is gone.
    async fn connect(&self, permit: &Permit, deadline: Instant) -> Result<PooledConnection, Miss> {
        let (worker, address) = (self.worker, permit.address);
        // A connection that is there does not show that it can be reached.
        if !permit.doubtful
            && let Some(lease) = worker.pooled(address).await
        {
            return Ok(lease);
        }
        let begun = Instant::now();
        loop {
            match worker.connect(address, CONNECT).await {
                Ok(lease) => {
                    self.gate.mark_ready(address);
                    return Ok(lease);
                }
                Err(error) => {
                    let waits = !permit.ready && self.gate.has(address) && Instant::now() < deadline;
                    if !waits {
                        debug!(instance = %address, %error, "cannot connect");
                        // One that has not answered yet may do so later.
                        if permit.ready {
                            self.leave_alone(address);
                        }
                        return Err(Miss::NotExecuted);
                    }
                }
            }
            sleep((begun.elapsed() / 4).clamp(FIRST_KNOCK, KNOCK)).await;
        }
    }

    /// Until it is tried again.
    fn leave_alone(&self, address: SocketAddr) {
        let Some(pause) = self.gate.mark_unreachable(address) else { return };
        let gate = self.gate.clone();
        tokio::spawn(async move {
            sleep(pause).await;
            gate.try_again(address);
        });
    }

    /// A connection that becomes a WebSocket holds its place until it ends.
    async fn upgrade(&self, upgraded: hyper::upgrade::OnUpgrade, client: &Client) -> Response<Body> {
        let mut record = self.gate.begin_call(&self.parts.method);
        let answer = self.send_upgrade(upgraded, client, &mut record).await;
        record.answered(answer.status());
        answer
    }

    async fn send_upgrade(
        &self,
        upgraded: hyper::upgrade::OnUpgrade,
        client: &Client,
        record: &mut CallRecord,
    ) -> Response<Body> {
        let deadline = Instant::now() + self.gate.limits().0;
        loop {
            let permit = match self.gate.acquire(deadline).await {
                Ok(permit) => permit,
                Err(refused) => return self.refuse(&refused),
            };
            match self.try_upgrade(permit, deadline, record).await {
                Ok((response, permit)) => {
                    let held = (upgraded, (client.place.clone(), permit));
                    return upgrade::complete(response, self.worker.shared.timeouts, held);
                }
                Err(Miss::Failed(answer) | Miss::Lost(answer)) => return answer,
                Err(Miss::NotExecuted) => record.turned_away(),
            }
            if Instant::now() >= deadline {
                return self.refuse(&Refused::Late(self.gate.limits().0));
            }
            sleep(KNOCK).await;
        }
    }

    async fn try_upgrade(
        &self,
        permit: Permit,
        deadline: Instant,
        record: &mut CallRecord,
    ) -> Result<(Response<Incoming>, Permit), Miss> {
        let address = permit.address;
        self.connect(&permit, deadline).await?;
        record.connected(address, permit.ready);
        let answer = self.gate.limits().1 + SLACK;
        let timeouts = Timeouts { answer, ..self.worker.shared.timeouts };
        let response = match upgrade::offer(address, timeouts, self.request()).await {
            Ok(response) => response,
            Err(Failure::Connect(_, error)) => {
                debug!(instance = %address, %error, "cannot connect");
                self.leave_alone(address);
                return Err(Miss::NotExecuted);
            }
            Err(Failure::Exchange(_, ExchangeError::TimedOut)) => {
                let message = format!("no answer in {} s", answer.as_secs());
                return Err(Miss::Failed(problem(StatusCode::GATEWAY_TIMEOUT, "Timeout", &message)));
            }
            Err(Failure::Exchange(_, error)) => {
                let message = format!("the instance at {address} gave no answer to the handshake: {error}");
                return Err(Miss::Failed(problem(StatusCode::BAD_GATEWAY, "InstanceLost", &message)));
            }
        };
        let Some(why) = response.headers().get(NOT_EXECUTED) else { return Ok((response, permit)) };
        debug!(instance = %address, ?why, "an instance took no handshake");
        if why.as_bytes() == b"draining" {
            self.gate.mark_leaving(address);
        }
        Err(Miss::NotExecuted)
    }

    fn request(&self) -> Request<RequestBody> {
        let mut request = Request::new(RequestBody::kept(self.body.clone()));
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = self.parts.uri.clone();
        *request.headers_mut() = self.parts.headers.clone();
        request
    }

    fn refuse(&self, refused: &Refused) -> Response<Body> {
        refusal(&self.gate.name, refused)
    }

    /// It may run twice, as RFC 9110 has it. A body says that something is to happen all the same.
    fn is_safe(&self) -> bool {
        self.body.is_empty() && matches!(self.parts.method, Method::GET | Method::HEAD)
    }
}

/// The answer to a request that gets no place in an instance.
pub(super) fn refusal(function: &Name, refused: &Refused) -> Response<Body> {
    let name = format!("{}/{}", function.0, function.1);
    let (status, reason, message) = match refused {
        Refused::Full(waiting) => (
            StatusCode::TOO_MANY_REQUESTS,
            "QueueFull",
            format!("{waiting} requests wait for function {name} already"),
        ),
        Refused::Late(waited) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "NoInstance",
            format!("no instance of function {name} was free within {} s", waited.as_secs()),
        ),
        Refused::Unheard(waited) => {
            let waited = waited.as_secs();
            let message = format!(
                "no instance of function {name} came within {waited} s: the control plane does not answer"
            );
            (StatusCode::SERVICE_UNAVAILABLE, "NoControlPlane", message)
        }
        Refused::Problem(known) => {
            let message = format!("function {name} cannot be started: {}", known.message);
            return problem(StatusCode::SERVICE_UNAVAILABLE, &known.reason, &message);
        }
    };
    problem(status, reason, &message)
}

/// The whole body, or the answer to a client that sends too much or too slowly.
async fn collect(mut body: Incoming, timeouts: Timeouts) -> Result<Bytes, Box<Response<Body>>> {
    let mut whole = BytesMut::new();
    loop {
        let frame = timeout(timeouts.client, poll_fn(|cx| Pin::new(&mut body).poll_frame(cx))).await;
        let refused = |status, reason, message: &str| Err(Box::new(problem(status, reason, message)));
        match frame {
            Ok(None) => return Ok(whole.freeze()),
            Ok(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    whole.extend_from_slice(data);
                }
                if whole.len() > LARGEST_BODY {
                    let message = format!("the body has more than {LARGEST_BODY} bytes");
                    return refused(StatusCode::PAYLOAD_TOO_LARGE, "BodyTooLarge", &message);
                }
            }
            Ok(Some(Err(_))) => return refused(StatusCode::BAD_REQUEST, "BodyBroken", "the body broke off"),
            Err(_) => return refused(StatusCode::REQUEST_TIMEOUT, "BodyLate", "the body does not come"),
        }
    }
}

/// The router's own answer, in the form of a handler's failure.
pub(super) fn problem(status: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let text = json!({"errorType": reason, "errorMessage": message, "reason": reason, "message": message});
    let mut response = Response::new(Body::Own(Some(Bytes::from(format!("{text}\n")))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(FUNCTION_ERROR, HeaderValue::from_static("router"));
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
