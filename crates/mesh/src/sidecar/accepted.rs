//! A connection that was taken, with its place among the others.

use std::io::{self, IoSlice};
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::places::Place;

/// The place is free when this is dropped, and knows when something has passed.
#[derive(Debug)]
pub struct Accepted {
    stream: TcpStream,
    place: Option<Place>,
}

impl Accepted {
    pub fn new(stream: TcpStream, place: Place) -> Self {
        Accepted { stream, place: Some(place) }
    }

    fn noted<T>(&self, passed: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let (Poll::Ready(Ok(_)), Some(place)) = (&passed, &self.place) {
            place.used();
        }
        passed
    }
}

/// One that nobody counts.
impl From<TcpStream> for Accepted {
    fn from(stream: TcpStream) -> Self {
        Accepted { stream, place: None }
    }
}

impl Deref for Accepted {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.noted(read)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.noted(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.noted(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
