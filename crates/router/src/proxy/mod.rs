//! Takes requests and hands them to backends.
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
mod headers;
mod plain;
mod pool;
#[cfg(test)]
mod tests;
mod upgrade;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub use body::Body;
pub use worker::{Client, Worker};

use crate::{Certificates, Metrics, Table};

/// How long to wait for what. Nobody sets these; tests do.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    pub connect: Duration,
    /// For the head of the answer, since the last byte of the request was taken.
    pub answer: Duration,
    /// For the next request, or the rest of its head, on a client's connection.
    pub client: Duration,
    /// For open requests to end when the router stops.
    pub stop: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            connect: Duration::from_secs(3),
            answer: Duration::from_secs(60),
            client: Duration::from_secs(75),
            stop: Duration::from_secs(10),
        }
    }
}

/// What all workers share.
#[derive(Debug, Default)]
pub struct Shared {
    pub table: watch::Sender<Arc<Table>>,
    pub certificates: watch::Sender<Arc<Certificates>>,
    pub metrics: Metrics,
    pub patience: Patience,
}
