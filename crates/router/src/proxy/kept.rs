//! Answers that instances keep until their caller has written them down.
//!
//! A caller that gives its call a key (`minik8s-result-key`) and dies before the answer came asks for it again, by the
//! method OPTIONS, which does nothing anywhere else: every instance is asked, and the one that has made this call, or is
//! at it, answers. In the same way a caller says of which answers it needs no more. Nothing is executed here, nothing
//! waits for a place, and nothing counts as demand.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::header::HeaderValue;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};

use minik8s_proxy::{RequestBody, finish};

use super::function::{CONNECT, NOT_EXECUTED, SLACK, problem};
use super::{Body, Worker, instance};
use crate::gate::Gate;

/// What is asked of instances: `find` or `acknowledge`.
const ASK: &str = "minik8s-kept-result";
/// An instance says so with an answer that it has kept. One that is not of a runtime of ours never does.
const KEPT: &str = "minik8s-kept";

pub(super) fn is_asked(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(ASK)
}

/// The kept answer; or that nobody has one.
pub(super) async fn ask(worker: &Worker, gate: &Arc<Gate>, parts: &Parts, tells: bool) -> Response<Body> {
    let finds = parts.headers.get(ASK).is_some_and(|word| word == "find");
    let instances = gate.addresses().into_iter();
    let mut answers: FuturesUnordered<_> =
        instances.map(|address| at(worker, gate, address, parts, tells)).collect();
    while let Some(answer) = answers.next().await {
        if let Some(answer) = answer.filter(|_| finds) {
            return answer;
        }
    }
    if !finds {
        return Response::new(Body::Own(None));
    }
    let mut none = problem(StatusCode::NOT_FOUND, "NotKept", "no instance knows of this call");
    none.headers_mut().insert(NOT_EXECUTED, HeaderValue::from_static("unknown"));
    none
}

/// What one instance has kept. One that cannot be reached has kept nothing.
async fn at(
    worker: &Worker,
    gate: &Gate,
    address: SocketAddr,
    parts: &Parts,
    tells: bool,
) -> Option<Response<Body>> {
    let mut lease = worker.connect(address, CONNECT).await.ok()?;
    let mut request = Request::new(RequestBody::empty());
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    // It may be at it still.
    let response = lease.send(request, gate.limits().1 + SLACK).await.ok()?;
    let kept = response.headers().contains_key(KEPT);
    let mut response = finish(response, lease, worker.shared.timeouts.silence).await;
    if tells {
        instance::tell(response.headers_mut(), gate, address, None);
    }
    kept.then_some(response)
}
