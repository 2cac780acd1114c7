//! Answers of the proxy itself: plain sentences that say what is meant.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use super::Body;

/// Why a request did not reach a backend, or came back without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub text: String,
}

impl Refusal {
    pub const CONTENT_TYPE: &'static str = "text/plain; charset=utf-8";

    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Refusal { status, text: text.into() }
    }

    /// What the client reads.
    pub fn sentence(&self) -> String {
        let reason = self.status.canonical_reason().unwrap_or_default();
        format!("{} {reason}: {}\n", self.status.as_u16(), self.text)
    }

    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::Own(Some(Bytes::from(self.sentence()))));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(Refusal::CONTENT_TYPE));
        response
    }
}
