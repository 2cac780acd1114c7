//! Responses of the agent's port.

use std::convert::Infallible;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An error as kubectl shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub reason: &'static str,
    pub message: String,
}

impl Refusal {
    pub fn bad_request(message: impl Into<String>) -> Self {
        Refusal { status: StatusCode::BAD_REQUEST, reason: "BadRequest", message: message.into() }
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Refusal { status: StatusCode::NOT_FOUND, reason: "NotFound", message: message.into() }
    }

    pub fn forbidden() -> Self {
        let message = "this path answers the API server only".to_owned();
        Refusal { status: StatusCode::FORBIDDEN, reason: "Forbidden", message }
    }

    pub fn unauthorized() -> Self {
        let message = "give a token of this cluster: Authorization: Bearer TOKEN".to_owned();
        Refusal { status: StatusCode::UNAUTHORIZED, reason: "Unauthorized", message }
    }

    pub fn may_not(user: &str, node: &str, right: &str) -> Self {
        let message = format!("user \"{user}\" cannot get nodes/{right} of node \"{node}\"");
        Refusal { status: StatusCode::FORBIDDEN, reason: "Forbidden", message }
    }

    pub fn internal(error: impl ToString) -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Refusal { status, reason: "InternalError", message: error.to_string() }
    }

    pub fn into_response(self) -> Response<Body> {
        let body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.status.as_u16(),
        });
        let mut response = with_type(body.to_string(), "application/json");
        *response.status_mut() = self.status;
        response
    }
}

pub fn text(body: impl Into<Bytes>) -> Response<Body> {
    with_type(body, "text/plain")
}

/// A page in Prometheus' text format.
pub fn metrics(page: String) -> Response<Body> {
    with_type(page, "text/plain; version=0.0.4; charset=utf-8")
}

pub fn json(body: &impl serde::Serialize) -> Response<Body> {
    with_type(serde_json::to_vec(body).unwrap_or_default(), "application/json")
}

pub fn with_type(body: impl Into<Bytes>, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub fn empty() -> Body {
    Empty::new().boxed_unsync()
}

/// Whatever arrives, until the sender is dropped.
pub fn streamed<T: Into<Bytes> + Send + 'static>(chunks: mpsc::Receiver<T>) -> Response<Body> {
    let frames = ReceiverStream::new(chunks).map(|chunk| Ok(Frame::data(chunk.into())));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
