//! Bodies on their way through.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use minik8s_limits::Place;
use thiserror::Error;
use tokio::time::{Sleep, sleep};

use super::exchange::PooledConnection;
use super::tap::Telling;

/// What a client gets.
#[derive(Debug)]
pub enum Body {
    /// The proxy's own words.
    Own(Option<Bytes>),
    /// A backend's answer, with the connection that it comes from.
    Backend(Box<BackendBody>),
}

/// Why a backend's answer broke off.
#[derive(Debug, Error)]
pub enum BodyError {
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    #[error("the backend has sent nothing for too long")]
    Silent,
}

/// Reading it drives the connection; when it ends, the connection goes back to the pool.
#[derive(Debug)]
pub struct BackendBody {
    body: Incoming,
    lease: Option<PooledConnection>,
    /// How long the backend may be silent, and since when it is.
    silence: Duration,
    silent: Option<Pin<Box<Sleep>>>,
    /// The client's place among the requests, until the answer is over.
    place: Option<Place>,
    /// What the front wants to be held as long, likewise.
    permit: Option<Box<dyn Any + Send + Sync>>,
    /// Whom to tell of it when it is over.
    telling: Option<Telling>,
}

impl BackendBody {
    /// Without a lease the connection has a task of its own.
    pub fn new(body: Incoming, lease: Option<PooledConnection>, silence: Duration) -> Self {
        BackendBody { body, lease, silence, silent: None, place: None, permit: None, telling: None }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = self.poll_inner(cx) {
            self.silent = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        let silence = self.silence;
        let silent = self.silent.get_or_insert_with(|| Box::pin(sleep(silence)));
        ready!(silent.as_mut().poll(cx));
        // The connection goes with it.
        self.lease = None;
        Poll::Ready(Some(Err(BodyError::Silent)))
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

impl Body {
    /// An answer without a body gives it back at once.
    pub fn permitted(mut self, permit: impl Any + Send + Sync) -> Self {
        if let Body::Backend(backend) = &mut self {
            backend.permit = Some(Box::new(permit));
        }
        self
    }

    /// Counts what passes; words of the proxy's own have passed.
    pub(crate) fn telling(mut self, mut telling: Telling) -> Self {
        match &mut self {
            Body::Own(bytes) => telling.add(bytes.as_ref().map_or(0, Bytes::len)),
            Body::Backend(backend) => backend.telling = Some(telling),
        }
        self
    }

    pub fn holding(mut self, place: Place) -> Self {
        if let Body::Backend(backend) = &mut self {
            backend.place = Some(place);
        }
        self
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let backend = match self.get_mut() {
            Body::Own(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Backend(backend) => backend,
        };
        let frame = ready!(backend.poll_piece(cx));
        if let (Some(telling), Some(Ok(frame))) = (&mut backend.telling, &frame) {
            telling.add(frame.data_ref().map_or(0, Bytes::len));
        }
        let over = frame.is_none() || backend.body.is_end_stream();
        if over {
            backend.permit = None;
            backend.telling = None;
            if let Some(lease) = backend.lease.take() {
                lease.release(cx);
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Own(bytes) => bytes.is_none(),
            Body::Backend(backend) => backend.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Own(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Backend(backend) => backend.body.size_hint(),
        }
    }
}

/// What a backend gets, counted so that a slow upload is not taken for a slow answer.
#[derive(Debug)]
pub struct RequestBody {
    body: Source,
    taken: Option<Arc<AtomicU64>>,
}

#[derive(Debug)]
enum Source {
    Nothing,
    /// As it comes from the client.
    Client(Incoming),
    /// Kept as a whole, to be sent again if it must be.
    Kept(Bytes),
}

impl RequestBody {
    pub fn empty() -> Self {
        RequestBody { body: Source::Nothing, taken: None }
    }

    pub fn new(body: Incoming) -> Self {
        if http_body::Body::is_end_stream(&body) {
            return RequestBody::empty();
        }
        RequestBody { body: Source::Client(body), taken: Some(Arc::default()) }
    }

    pub fn kept(body: Bytes) -> Self {
        if body.is_empty() {
            return RequestBody::empty();
        }
        RequestBody { body: Source::Kept(body), taken: Some(Arc::default()) }
    }

    /// Grows with every piece that the backend has taken; `None` if there is no body.
    pub fn taken(&self) -> Option<Arc<AtomicU64>> {
        self.taken.clone()
    }

    pub fn is_empty(&self) -> bool {
        matches!(self.body, Source::Nothing)
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let frame = match &mut this.body {
            Source::Nothing => return Poll::Ready(None),
            Source::Client(body) => ready!(Pin::new(body).poll_frame(cx)),
            Source::Kept(bytes) => {
                let bytes = std::mem::take(bytes);
                (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)))
            }
        };
        if let Some(taken) = &this.taken {
            taken.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Source::Nothing => true,
            Source::Client(body) => http_body::Body::is_end_stream(body),
            Source::Kept(bytes) => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Source::Nothing => SizeHint::with_exact(0),
            Source::Client(body) => http_body::Body::size_hint(body),
            Source::Kept(bytes) => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
