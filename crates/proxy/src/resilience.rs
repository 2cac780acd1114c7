//! What a route may ask for beside an endpoint: more attempts, a pause, a copy elsewhere. The data path carries it out and
//! never repeats what could have had an effect.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use minik8s_meta::Backoff;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::debug;

use crate::stream::{Secured, Stream};

/// How often a failed request is sent again, and what counts as failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// After the first.
    pub attempts: u32,
    pub on: RetryOn,
    pub per_try: Option<Duration>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetryOn {
    /// Every code from 500 on.
    pub server_error: bool,
    /// 502, 503 and 504.
    pub gateway_error: bool,
    /// Nobody took the connection.
    pub connect_failure: bool,
    /// The connection ended, or time was up, before an answer.
    pub reset: bool,
}

impl RetryOn {
    pub fn code(self, code: u16) -> bool {
        self.server_error && code >= 500 || self.gateway_error && matches!(code, 502..=504)
    }
}

const BACKOFF: Backoff = Backoff::millis(25, 400);

/// The pause before a further attempt, which grows.
pub(crate) fn backoff(attempt: u32) -> Duration {
    BACKOFF.after(attempt.saturating_add(1))
}

/// Copies of requests that are on their way at a time; what is more is not sent.
const MOST_COPIES: usize = 64;
const COPY: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(crate) struct Copies(Arc<Semaphore>);

impl Default for Copies {
    fn default() -> Self {
        Copies(Arc::new(Semaphore::new(MOST_COPIES)))
    }
}

impl Copies {
    /// Sends a request on a connection of its own, and forgets the answer.
    pub fn send(&self, address: SocketAddr, secured: Secured, request: Vec<u8>) {
        let Ok(permit) = self.0.clone().try_acquire_owned() else { return };
        tokio::spawn(async move {
            let exchange = async {
                let mut stream =
                    Stream::connect(address, secured, COPY).await.map_err(std::io::Error::other)?;
                stream.write_all(&request).await?;
                stream.flush().await?;
                // The beginning of the answer says that it was taken; the end of the connection that nobody reads on.
                stream.read(&mut [0; 4096]).await.map(drop)
            };
            match timeout(COPY, exchange).await {
                Ok(Err(error)) => debug!(%address, %error, "a copy of a request got lost"),
                Err(_) => debug!(%address, "no answer to a copy of a request in time"),
                Ok(Ok(())) => {}
            }
            drop(permit);
        });
    }
}
