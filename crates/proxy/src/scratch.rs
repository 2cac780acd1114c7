//! One buffer for all connections of a thread, so that one that waits for bytes holds none of its own.
//!
//! Bytes are read here, and only as many as came are kept by whoever wanted them. Nobody holds the buffer longer than one
//! read and what is done with it at once.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// As much as is read at once, at most.
pub(crate) const SIZE: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; SIZE]);
}

/// What is read, so many bytes at most, is for `take`, with the same context; at the end of the stream it is nothing.
pub(crate) fn poll_read<I: AsyncRead, T>(
    stream: Pin<&mut I>,
    cx: &mut Context<'_>,
    most: usize,
    take: impl FnOnce(&[u8], &mut Context<'_>) -> T,
) -> Poll<io::Result<T>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let most = most.min(scratch.len());
        let mut buffer = ReadBuf::new(&mut scratch[..most]);
        ready!(stream.poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(take(buffer.filled(), cx)))
    })
}

/// Adds what comes; the answer is how many bytes, none at the end.
pub(crate) fn poll_read_into<I: AsyncRead>(
    stream: Pin<&mut I>,
    cx: &mut Context<'_>,
    most: usize,
    into: &mut Vec<u8>,
) -> Poll<io::Result<usize>> {
    poll_read(stream, cx, most, |read, _| {
        into.extend_from_slice(read);
        read.len()
    })
}
