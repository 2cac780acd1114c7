//! One connection to a backend, lent to one request at a time.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::time::{Instant, sleep_until};

use crate::body::RequestBody;
use crate::forward::leaves_nothing;
use crate::pool::{Kept, Pool};
use crate::stream::{Secured, Stream};

/// The request comes back where the backend cannot have seen it.
#[derive(Debug, Error)]
pub enum ExchangeError {
    #[error("the connection was closed before the request was sent")]
    NotSent(Box<Request<RequestBody>>),
    #[error(transparent)]
    Broken(hyper::Error),
    #[error("the connection was closed before the request was sent")]
    Unsent(#[source] io::Error),
    #[error("the connection was closed before anything came")]
    Lost(#[source] io::Error),
    #[error("its answer makes no sense: {0}")]
    Unclear(&'static str),
    #[error("no answer in time")]
    TimedOut,
}

#[derive(Debug, Error)]
pub enum ConnectError {
    #[error("no connection in time")]
    TimedOut,
    #[error(transparent)]
    Refused(#[from] io::Error),
    #[error(transparent)]
    Handshake(#[from] hyper::Error),
}

pub(crate) type Wire = TokioIo<Stream>;

/// Dropped before its answer has ended, the connection is closed.
#[derive(Debug)]
pub struct PooledConnection {
    pub address: SocketAddr,
    sender: SendRequest<RequestBody>,
    connection: Connection<Wire, RequestBody>,
    pool: Arc<Pool<PooledConnection>>,
    /// Whether the next request may use it.
    is_clean: bool,
}

impl PooledConnection {
    pub(crate) async fn connect(
        address: SocketAddr,
        pool: Arc<Pool<PooledConnection>>,
        secured: Secured,
        limit: Duration,
    ) -> Result<Self, ConnectError> {
        let (sender, connection) = handshake(dial(address, secured, limit).await?).await?;
        Ok(PooledConnection { address, sender, connection, pool, is_clean: true })
    }

    /// Sends the request and waits for the head of its answer.
    pub async fn send(
        &mut self,
        request: Request<RequestBody>,
        limit: Duration,
    ) -> Result<Response<Incoming>, ExchangeError> {
        let taken = request.body().taken();
        self.is_clean &= leaves_nothing(request.method(), !request.body().is_empty());
        let mut answer = pin!(self.sender.try_send_request(request));
        let connection = &mut self.connection;
        let mut closed = false;
        let mut exchange = pin!(poll_fn(move |cx| {
            if !closed {
                closed = Pin::new(&mut *connection).poll(cx).is_ready();
            }
            answer.as_mut().poll(cx)
        }));
        let mut deadline = Instant::now() + limit;
        let mut seen = 0;
        loop {
            let answer = tokio::select! {
                biased;
                answer = exchange.as_mut() => answer,
                () = sleep_until(deadline) => {
                    let now = taken.as_ref().map_or(0, |taken| taken.load(Ordering::Relaxed));
                    if now == seen {
                        return Err(ExchangeError::TimedOut);
                    }
                    (seen, deadline) = (now, Instant::now() + limit);
                    continue;
                }
            };
            return answer.map_err(|mut error| match error.take_message() {
                Some(request) => ExchangeError::NotSent(Box::new(request)),
                None => ExchangeError::Broken(error.into_error()),
            });
        }
    }

    /// Reads and writes what can be; ready when the connection is over.
    pub fn poll_connection(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.connection).poll(cx).map(drop)
    }

    /// Back to the pool after a whole answer, if the backend keeps the connection open.
    pub fn release(mut self, cx: &mut Context<'_>) {
        if self.is_clean && self.is_usable(cx) {
            let pool = self.pool.clone();
            pool.put(self);
        }
    }
}

impl Kept for PooledConnection {
    fn address(&self) -> SocketAddr {
        self.address
    }

    /// A backend that has closed the connection is found out here.
    fn is_usable(&mut self, cx: &mut Context<'_>) -> bool {
        self.poll_connection(cx).is_pending() && self.sender.is_ready()
    }
}

pub(crate) async fn dial(
    address: SocketAddr,
    secured: Secured,
    limit: Duration,
) -> Result<Wire, ConnectError> {
    Ok(TokioIo::new(Stream::connect(address, secured, limit).await?))
}
