//! Answers of the router itself: plain sentences that say which host, path or Service is meant.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use super::Body;

/// Why a request did not reach a backend, or came back without an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub status: StatusCode,
    pub text: String,
}

impl Refusal {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Refusal { status, text: text.into() }
    }

    pub fn into_response(self) -> Response<Body> {
        let reason = self.status.canonical_reason().unwrap_or_default();
        let text = format!("{} {reason}: {}\n", self.status.as_u16(), self.text);
        let mut response = Response::new(Body::Own(Some(Bytes::from(text))));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response
    }
}
