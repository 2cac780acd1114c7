//! A client's requests, of which writes pass only while this process leads.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Method, Request};
use tower::Service;

use super::Leadership;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[error("another server leads now")]
pub struct NotLeading;

/// Wraps what a `kube::Client` is made of.
#[derive(Clone)]
pub struct Gate<S> {
    inner: S,
    leadership: Leadership,
}

impl<S> Gate<S> {
    pub fn new(inner: S, leadership: Leadership) -> Self {
        Gate { inner, leadership }
    }
}

impl<S, B> Service<Request<B>> for Gate<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.method() != Method::GET && !self.leadership.holds() {
            return Box::pin(async { Err(NotLeading.into()) });
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}
