//! A connection to a backend that one request after the other may use.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::exchange::{ConnectError, ExchangeError};
use crate::pool::Kept;
use crate::scratch;
use crate::stream::{Secured, Stream};

#[derive(Debug)]
pub(crate) struct Backend {
    address: SocketAddr,
    stream: Stream,
}

impl Backend {
    pub async fn connect(
        address: SocketAddr,
        secured: Secured,
        timeouts: Duration,
    ) -> Result<Self, ConnectError> {
        Ok(Backend { address, stream: Stream::connect(address, secured, timeouts).await? })
    }

    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), ExchangeError> {
        let sent = self.stream.write(bytes).await.map_err(ExchangeError::Unsent)?;
        self.stream.write_all(&bytes[sent..]).await.map_err(ExchangeError::Lost)?;
        self.stream.flush().await.map_err(ExchangeError::Lost)
    }

    /// Adds what comes; nothing if the backend has closed the connection.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        scratch::poll_read_into(Pin::new(&mut self.stream), cx, scratch::SIZE, buffer)
    }
}

impl Kept for Backend {
    fn address(&self) -> SocketAddr {
        self.address
    }

    /// Between two requests a backend has nothing to say: if there is something, it is the end or none of ours.
    fn is_usable(&mut self, _: &mut Context<'_>) -> bool {
        self.stream.is_silent()
    }
}
