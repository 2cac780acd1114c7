//! The API without a socket: what the controllers inside the server process talk to.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use minik8s_auth::User;

use crate::answer::Body;
use crate::api::Api;
use crate::authenticator::LocalUser;

/// A tower service that answers as this user; `kube::Client::new` takes it.
#[derive(Clone)]
pub struct LocalService {
    api: Arc<Api>,
    user: User,
}

impl LocalService {
    pub fn new(api: Arc<Api>, user: User) -> Self {
        LocalService { api, user }
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
        let api = self.api.clone();
        Box::pin(async move { Ok(api.handle(request).await) })
    }
}
