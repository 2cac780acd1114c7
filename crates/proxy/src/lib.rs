//! One data path for all that forwards requests: takes them and hands them to backends.
//!
//! Who says where a request leads is a [`Front`]. This crate never knows a host name's owner, a Service or a cluster.
//!
//! Everything a client's connection needs happens in its own task: the connection to the backend is polled by
//! whoever waits for its answer, not by a task of its own. That saves two switches between tasks per request, and
//! makes it plain who owns a connection: the request, then the body of its answer, then the [`pool`].
//!
//! Most requests are of one simple kind and go [a shorter way](plain), byte by byte; hyper does all others.

mod answer;
mod body;
mod exchange;
mod forward;
mod front;
pub mod gateway;
pub mod headers;
mod led;
mod metrics;
mod passing;
mod plain;
mod pool;
mod resilience;
mod scratch;
mod stream;
mod tap;
#[cfg(test)]
mod testing;
mod trace;
mod turns;
pub mod upgrade;
mod worker;
mod write_timeout;

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use minik8s_limits::{ClientLimit, Place};
use minik8s_telemetry::Tracer;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use answer::Refusal;
pub use body::{Body, RequestBody};
pub use exchange::{ConnectError, ExchangeError, PooledConnection};
pub use forward::{Failure, finish, target, wants_upgrade};
pub use front::{Answering, Front, Headers, RequestHead, Route};
pub use led::{LedBy, LedServices};
pub use metrics::{DURATION_BUCKETS, LabelMetrics, Metrics};
pub use passing::pass;
pub use plain::Rewound;
pub use resilience::{Retry, RetryOn};
pub use stream::{Secured, Stream};
pub use tap::{Tap, TappedRequest, Wanted};
pub use turns::{EndpointTurns, Turn, Turns};
pub use upgrade::detached;
pub use worker::{Client, Worker};

/// How long to wait for what. Nobody sets these; tests do.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    pub connect: Duration,
    /// For the head of the answer, since the last byte of the request was taken.
    pub answer: Duration,
    /// For the next piece of an answer whose head has come.
    pub silence: Duration,
    /// For the client to take more of what is sent to it.
    pub unread: Duration,
    /// For the next request, or the rest of its head, on a client's connection.
    pub client: Duration,
    /// For open requests to end when the proxy stops.
    pub stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(3),
            answer: Duration::from_secs(60),
            silence: Duration::from_secs(300),
            unread: Duration::from_secs(60),
            client: Duration::from_secs(75),
            stop: Duration::from_secs(10),
        }
    }
}

/// What all workers share.
#[derive(Debug)]
pub struct Shared<F: Front> {
    pub table: watch::Sender<Arc<F::Table>>,
    pub metrics: Metrics,
    pub timeouts: Timeouts,
    pub requests: RequestLimit,
    /// Who tells of requests. Not set: nobody.
    pub tracer: OnceLock<Tracer>,
    /// Who sees requests as they pass, if somebody wants to.
    pub tap: Arc<Tap>,
    /// Another proxy takes the connections from now on: clients are asked to come back to it, and none is cut off. An idle
    /// connection stays until its next request, since a client may be sending one just now.
    pub retiring: CancellationToken,
    /// What the front has beside its table.
    pub front: F,
}

impl<F: Front> Default for Shared<F> {
    fn default() -> Self {
        let (prefix, label) = F::METRICS;
        Shared {
            table: watch::Sender::default(),
            metrics: Metrics::new(prefix, label),
            timeouts: Timeouts::default(),
            requests: RequestLimit::default(),
            tracer: OnceLock::new(),
            tap: Arc::default(),
            retiring: CancellationToken::new(),
            front: F::default(),
        }
    }
}

impl<F: Front> Deref for Shared<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.front
    }
}

/// Requests of one client address, and of all, whose answers are not over. Over HTTP/2 a client needs no connection of
/// its own for each, and may leave them all unread.
#[derive(Debug)]
pub struct RequestLimit(Arc<ClientLimit>);

impl RequestLimit {
    pub fn new(each: usize, total: usize) -> Self {
        RequestLimit(ClientLimit::new(each, total))
    }

    /// `None` if the client has too many already.
    pub fn admit(&self, client: &Client) -> Option<Place> {
        self.0.admit(client.ip)
    }
}

impl Default for RequestLimit {
    fn default() -> Self {
        RequestLimit::new(512, 8192)
    }
}
