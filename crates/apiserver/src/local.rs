//! The API without a socket: what the controllers inside the server process talk to.
//!
//! Whoever asks a node or a pod here mostly holds all of the answer, in the process that holds the cluster. A stolen one
//! could answer without end, so its answers have a bound. Streams that have said so much end, and are opened again.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use minik8s_api::Piecewise;
use minik8s_auth::User;

use crate::answer::Body;
use crate::api::Api;
use crate::authenticator::LocalUser;
use crate::request::{Query, RequestInfo};

/// Far more than any of them has to say.
const MOST_PROXIED: usize = 32 << 20;

/// A tower service that answers as this user; `kube::Client::new` takes it.
#[derive(Clone)]
pub struct LocalService {
    api: Arc<Api>,
    user: User,
    agent: HeaderValue,
}

impl LocalService {
    pub fn new(api: Arc<Api>, user: User) -> Self {
        let agent = HeaderValue::from_str(component(&user.name));
        let agent = agent.unwrap_or_else(|_| HeaderValue::from_static("minik8s"));
        LocalService { api, user, agent }
    }
}

/// The upstream program that does what this user does: clients know the writers by those names.
fn component(user: &str) -> &str {
    match user.strip_prefix("system:") {
        Some(node) if node.starts_with("node:") => "kubelet",
        Some(name) => name,
        None => "minik8s",
    }
}

impl<B> tower::Service<Request<B>> for LocalService
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(LocalUser(self.user.clone()));
        // `managedFields` names writers by their program; here all are one.
        request.headers_mut().entry(USER_AGENT).or_insert_with(|| self.agent.clone());
        let info = RequestInfo::parse(request.method(), request.uri().path(), &Query::default());
        let is_bounded = info.subresource == "proxy" && request.extensions().get::<Piecewise>().is_none();
        let api = self.api.clone();
        Box::pin(async move {
            let response = api.handle(request).await;
            Ok(if is_bounded { response.map(|body| Bounded::body(body, info.path)) } else { response })
        })
    }
}

/// The beginning of a body.
struct Bounded {
    body: Body,
    left: usize,
    /// Whose answer it is.
    path: String,
}

impl Bounded {
    fn body(body: Body, path: String) -> Body {
        Bounded { body, left: MOST_PROXIED, path }.boxed_unsync()
    }
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let Poll::Ready(Some(Ok(frame))) = &polled else { return polled };
        match self.left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(left) => self.left = left,
            None => {
                tracing::info!(
                    path = self.path,
                    "an answer has more than {MOST_PROXIED} bytes: it ends here"
                );
                self.left = 0;
                return Poll::Ready(None);
            }
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;

    use super::*;

    fn answer(pieces: usize) -> Body {
        let piece = |_| Ok(Frame::data(Bytes::from_static(&[b'x'; 1 << 16])));
        StreamBody::new(futures::stream::iter((0..pieces).map(piece))).boxed_unsync()
    }

    #[tokio::test]
    async fn answer_of_a_node_without_end_is_not_held() {
        for (pieces, held) in [(3, 3), (512, 512), (1_000_000_000, 512)] {
            let body = Bounded::body(answer(pieces), String::new());
            let Ok(body) = body.collect().await;
            assert_eq!(body.to_bytes().len(), held << 16, "{pieces}");
        }
    }
}
