//! What a feature answers itself: paths of its own, and subresources of its kinds.

use std::convert::Infallible;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use jiff::Timestamp;

use crate::Objects;

/// Any body: whole or streamed.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// On a request of the server's own parts to a node or a pod: the answer is taken piece by piece, however long it is.
#[derive(Debug, Clone, Copy)]
pub struct Piecewise;

/// Answers requests that the API server has authenticated and authorized.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Whether an answer may take longer than other requests: it then holds no seat and has no deadline.
    fn is_long_running(&self) -> bool {
        false
    }

    /// Whether the answer to such a query goes on until its client has gone: likewise, and nobody waits for its end. A
    /// WebSocket gets its lines one by one.
    fn streams(&self, _query: &str) -> bool {
        false
    }

    /// The most bytes that the body of such a request may have, where it may have more than others. What one user may
    /// have on the way at once bounds it all the same.
    fn largest_body(&self, _method: &Method, _path: &str) -> Option<usize> {
        None
    }

    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body>;
}

/// A request with all of its body.
#[derive(Debug, Clone, Default)]
pub struct HandlerRequest {
    pub method: Method,
    /// As it was asked for.
    pub path: String,
    /// As it was asked for, without the question mark.
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Empty where the request names no object.
    pub namespace: String,
    pub name: String,
    pub requester: Requester,
    /// When the requester's certificate ends, if it was by one that they are known.
    pub expires: Option<Timestamp>,
}

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requester {
    pub name: String,
    pub groups: Vec<String>,
}

/// Answers a whole body.
pub fn respond(status: StatusCode, content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

/// Answers a JSON document per line, as they come. They are made when the client has taken those before.
pub fn respond_lines(lines: impl Stream<Item = String> + Send + 'static) -> Response<Body> {
    let frames = lines.map(|mut line| {
        line.push('\n');
        Ok(Frame::data(Bytes::from(line)))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Paths that a feature answers: outside of `/api` and `/apis`, or a whole API below `/apis/` that is not of objects, unless
/// an APIService has it.
#[derive(Clone)]
pub struct Route {
    /// This path, and with a slash at its end all paths below it.
    pub path: &'static str,
    pub access: Access,
    pub handler: Arc<dyn Handler>,
}

/// Who may ask for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, with or without credentials.
    Public,
    /// Whoever is known, by whatever credential. The handler decides what they may.
    Authenticated,
    /// Those whom RBAC allows the path, as any that is no resource.
    Authorized,
}

impl Route {
    pub fn matches(&self, path: &str) -> bool {
        path == self.path || (self.path.ends_with('/') && path.starts_with(self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    #[async_trait]
    impl Handler for Nobody {
        async fn handle(&self, _request: HandlerRequest, _cluster: &dyn Objects) -> Response<Body> {
            respond(StatusCode::NO_CONTENT, "text/plain", "")
        }
    }

    #[test]
    fn route_with_a_slash_holds_all_below_it() {
        let route = |path| Route { path, access: Access::Public, handler: Arc::new(Nobody) };
        assert!(route("/ui/").matches("/ui/") && route("/ui/").matches("/ui/assets/a.js"));
        assert!(!route("/ui/").matches("/ui") && !route("/ui/").matches("/uix/"));
        assert!(route("/ui").matches("/ui") && !route("/ui").matches("/ui/"));
    }
}
