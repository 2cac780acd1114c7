//! Bytes from one connection to another and back, without a look at them.
//!
//! Most such connections are silent most of the time, so nothing is held for one that is: what comes is read into the
//! thread's own buffer and written on at once, and only what the other side does not take is kept.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::scratch;

/// Until both sides have said all, or one of them fails.
pub async fn pass<A, B>(a: &mut A, b: &mut B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut there, mut back) = (Direction::default(), Direction::default());
    poll_fn(|cx| {
        let there = there.poll(Pin::new(&mut *a), Pin::new(&mut *b), cx)?;
        let back = back.poll(Pin::new(&mut *b), Pin::new(&mut *a), cx)?;
        if there.is_ready() && back.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

#[derive(Default)]
struct Direction {
    /// What was read and not taken, from there on.
    rest: Vec<u8>,
    written: usize,
    is_unflushed: bool,
    /// The reader has said all.
    has_ended: bool,
    is_over: bool,
}

/// What became of what was read.
enum Read {
    End,
    Taken,
    Kept(Vec<u8>),
}

impl Direction {
    fn poll<R: AsyncRead, W: AsyncWrite>(
        &mut self,
        mut reader: Pin<&mut R>,
        mut writer: Pin<&mut W>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_over {
            ready!(self.poll_rest(writer.as_mut(), cx))?;
            if self.has_ended {
                ready!(writer.as_mut().poll_shutdown(cx))?;
                self.is_over = true;
                break;
            }
            let read =
                scratch::poll_read(reader.as_mut(), cx, scratch::SIZE, |bytes, cx| -> io::Result<Read> {
                    if bytes.is_empty() {
                        return Ok(Read::End);
                    }
                    let taken = match writer.as_mut().poll_write(cx, bytes)? {
                        Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                        Poll::Ready(taken) => taken,
                        Poll::Pending => 0,
                    };
                    Ok(if taken == bytes.len() { Read::Taken } else { Read::Kept(bytes[taken..].to_vec()) })
                });
            let Poll::Ready(read) = read? else {
                if self.is_unflushed && writer.as_mut().poll_flush(cx)?.is_ready() {
                    self.is_unflushed = false;
                }
                return Poll::Pending;
            };
            match read? {
                Read::End => self.has_ended = true,
                Read::Taken => self.is_unflushed = true,
                Read::Kept(rest) => (self.rest, self.is_unflushed) = (rest, true),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_rest<W: AsyncWrite>(
        &mut self,
        mut writer: Pin<&mut W>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.written < self.rest.len() {
            match ready!(writer.as_mut().poll_write(cx, &self.rest[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                more => self.written += more,
            }
        }
        (self.rest, self.written) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// More than fits anywhere, both ways at once, and each side may go on after the other has said all.
    #[tokio::test]
    async fn bytes_pass_both_ways_to_the_end() {
        let (mut client, mut near) = duplex(1000);
        let (mut far, mut server) = duplex(300);
        let passing = tokio::spawn(async move { pass(&mut near, &mut far).await });
        let sent: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let expected = sent.clone();
        let serving = tokio::spawn(async move {
            let mut got = Vec::new();
            server.read_to_end(&mut got).await.unwrap();
            server.write_all(&got).await.unwrap();
            drop(server);
            got
        });
        client.write_all(&sent).await.unwrap();
        client.shutdown().await.unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).await.unwrap();
        passing.await.unwrap().unwrap();
        assert!(serving.await.unwrap() == expected && back == expected);
    }

    #[tokio::test]
    async fn end_of_a_reader_is_told() {
        let (mut client, mut near) = duplex(10);
        let (mut far, server) = duplex(10);
        drop(server);
        let passing = tokio::spawn(async move { pass(&mut near, &mut far).await });
        client.write_all(b"hello").await.unwrap();
        assert_eq!(passing.await.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
