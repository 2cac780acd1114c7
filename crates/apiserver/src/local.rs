//! The API without a socket: what the controllers inside the server process talk to.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use minik8s_auth::User;
use tokio_util::task::AbortOnDropHandle;

use crate::answer::{self, Body};
use crate::api::Api;
use crate::authenticator::LocalUser;
use crate::error::ApiError;

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
        // In a task of its own: who sends many at once must not answer all of them on one core.
        let answer = AbortOnDropHandle::new(tokio::spawn(self.api.clone().handle(request)));
        Box::pin(async move {
            let gone = |_| answer::error(&ApiError::unavailable("the server is going away"));
            Ok(answer.await.unwrap_or_else(gone))
        })
    }
}
