//! Bodies on their way through.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::exchange::Lease;

/// What a client gets.
#[derive(Debug)]
pub enum Body {
    /// The router's own words.
    Own(Option<Bytes>),
    /// A backend's answer, with the connection that it comes from.
    Backend(Box<BackendBody>),
    /// A backend's answer whose connection has a task of its own.
    Driven(Incoming),
}

/// Reading it drives the connection; when it ends, the connection goes back to the pool.
#[derive(Debug)]
pub struct BackendBody {
    body: Incoming,
    lease: Option<Lease>,
}

impl BackendBody {
    pub(super) fn new(body: Incoming, lease: Lease) -> Self {
        BackendBody { body, lease: Some(lease) }
    }

    fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        loop {
            if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
                return Poll::Ready(frame);
            }
            let Some(lease) = &mut self.lease else { return Poll::Pending };
            if lease.poll_connection(cx).is_ready() {
                // Over, well or not: the body knows.
                self.lease = None;
                continue;
            }
            return Pin::new(&mut self.body).poll_frame(cx);
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let backend = match self.get_mut() {
            Body::Own(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Driven(body) => return Pin::new(body).poll_frame(cx),
            Body::Backend(backend) => backend,
        };
        let frame = ready!(backend.poll_inner(cx));
        let over = frame.is_none() || backend.body.is_end_stream();
        if over && let Some(lease) = backend.lease.take() {
            lease.release(cx);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Own(bytes) => bytes.is_none(),
            Body::Backend(backend) => backend.body.is_end_stream(),
            Body::Driven(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Own(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Backend(backend) => backend.body.size_hint(),
            Body::Driven(body) => body.size_hint(),
        }
    }
}

/// What a backend gets, counted so that a slow upload is not taken for a slow answer.
#[derive(Debug)]
pub(super) struct RequestBody {
    body: Option<Incoming>,
    taken: Option<Arc<AtomicU64>>,
}

impl RequestBody {
    pub fn empty() -> Self {
        RequestBody { body: None, taken: None }
    }

    pub fn new(body: Incoming) -> Self {
        if http_body::Body::is_end_stream(&body) {
            return RequestBody::empty();
        }
        RequestBody { body: Some(body), taken: Some(Arc::default()) }
    }

    /// Grows with every piece that the backend has taken; `None` if there is no body.
    pub fn taken(&self) -> Option<Arc<AtomicU64>> {
        self.taken.clone()
    }

    pub fn is_empty(&self) -> bool {
        self.body.is_none()
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if let Some(taken) = &this.taken {
            taken.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}
