//! Answers that are ready and not taken yet: how much memory those of a user hold.
//!
//! Who asks and never reads has given its seat back, and would have the server hold all that it can ask for. So what is
//! held counts as the user's until the last of it is on its way. Streams are made as they are read, and hold nothing.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::Mutex;

use super::{Flow, too_many};
use crate::answer::Body;
use crate::error::Result;

const MIB: usize = 1024 * 1024;
/// Large ones of all users who are neither nodes nor administrators.
const BYTES: usize = 256 * MIB;
const BYTES_PER_USER: usize = 64 * MIB;
/// What each counts at least: a connection keeps more than the words.
const LEAST: usize = 4096;
/// What a connection is given at once, and so what is out of our hands and not taken. Answers that are no larger find room
/// whatever others hold.
const PIECE: usize = 64 * 1024;

#[derive(Default)]
pub struct Answers(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    bytes: usize,
    users: HashMap<Arc<str>, usize>,
}

/// The size of an answer that does not tell it itself, put into it.
#[derive(Clone, Copy)]
pub struct Whole(pub usize);

/// One answer. Given back when dropped.
pub struct Held {
    answers: Arc<Answers>,
    user: Arc<str>,
    bytes: usize,
}

impl Answers {
    /// Whether a user may ask for anything more. To be asked before it is done.
    pub fn admit(&self, flow: &Flow) -> Result<()> {
        let is_full = self.0.lock().users.get(&flow.user).is_some_and(|own| *own >= BYTES_PER_USER);
        if is_full { Err(too_many()) } else { Ok(()) }
    }

    /// Counts an answer for the flow that is put into it. None: it does not count. That of a write is told even if it does
    /// not fit: who hears 429 believes that nothing was written, and tries again.
    pub fn count(self: &Arc<Self>, response: &mut Response<Body>, is_write: bool) -> Result<Option<Held>> {
        let told = response.extensions_mut().remove::<Whole>().map(|Whole(bytes)| bytes);
        let Some(flow) = response.extensions_mut().remove::<Flow>() else { return Ok(None) };
        let exact = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        let Some(bytes) = told.or(exact) else { return Ok(None) };
        let bytes = bytes.max(LEAST);
        match self.0.lock().take(&flow.user, bytes, is_write) {
            true => Ok(Some(Held { answers: self.clone(), user: flow.user, bytes })),
            false => Err(too_many()),
        }
    }
}

impl Counts {
    fn take(&mut self, user: &Arc<str>, bytes: usize, is_write: bool) -> bool {
        let own = self.users.get(user).copied().unwrap_or_default();
        // One that is larger than all that a user may have goes out alone.
        let fits = (own == 0 || own + bytes <= BYTES_PER_USER)
            && (bytes <= PIECE || self.bytes == 0 || self.bytes + bytes <= BYTES);
        let is_taken = fits || is_write;
        if is_taken {
            self.bytes += bytes;
            self.users.insert(user.clone(), own + bytes);
        }
        is_taken
    }

    fn give_back(&mut self, user: &Arc<str>, bytes: usize) {
        self.bytes -= bytes;
        if let Some(own) = self.users.get_mut(user) {
            *own -= bytes;
            if *own == 0 {
                self.users.remove(user);
            }
        }
    }
}

impl Held {
    /// The answer, in pieces, so that it is here for as long as it is not taken.
    pub fn until_taken(self, response: Response<Body>) -> Response<Body> {
        response.map(|body| Untaken { body, next: Bytes::new(), _held: self }.boxed_unsync())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.answers.0.lock().give_back(&self.user, self.bytes);
    }
}

struct Untaken {
    body: Body,
    /// What is left of a frame.
    next: Bytes,
    _held: Held,
}

impl http_body::Body for Untaken {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        while self.next.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.next = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
            }
        }
        let length = self.next.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.next.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, own) = (self.body.size_hint(), self.next.len() as u64);
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + own);
        }
        hint.set_lower(rest.lower() + own);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use crate::answer;

    fn of(user: &str, bytes: usize) -> Response<Body> {
        let mut response = answer::bytes(200, "text/plain", vec![b'x'; bytes]);
        response.extensions_mut().insert(Flow { level: Level::Ordinary, user: user.into() });
        response
    }

    /// It says that it is so large, and is not.
    fn told(user: &str, bytes: usize) -> Response<Body> {
        let mut response = of(user, 0);
        response.extensions_mut().insert(Whole(bytes));
        response
    }

    #[test]
    fn answers_that_are_not_taken_are_bounded_per_user_and_in_all() {
        let answers = Arc::new(Answers::default());
        let count = |user: &str, bytes| answers.count(&mut told(user, bytes), false);
        let fill = |user: &str| {
            let held = || count(user, 8 * MIB).ok().flatten();
            std::iter::from_fn(held).take(100).collect::<Vec<_>>()
        };
        let first = fill("a");
        assert_eq!(first.len(), BYTES_PER_USER / (8 * MIB));
        assert_eq!(count("a", 10).err().map(|error| error.code), Some(429), "not even a small one");
        let flow = |user: &str| Flow { level: Level::Ordinary, user: user.into() };
        assert_eq!(answers.admit(&flow("a")).err().map(|error| error.code), Some(429));
        assert!(answers.admit(&flow("b")).is_ok());
        let written = answers.count(&mut told("a", 10), true);
        assert!(written.is_ok_and(|held| held.is_some()), "what is done is told");
        let others: Vec<_> = ["b", "c", "d", "e"].into_iter().map(fill).collect();
        assert_eq!(others.iter().map(Vec::len).collect::<Vec<_>>(), [8, 8, 8, 0]);
        assert!(count("e", PIECE).is_ok_and(|held| held.is_some()), "small ones of others find room");
        drop(first);
        assert!(count("a", 8 * MIB).is_ok());
        drop(others);
        assert!(count("f", 10 * BYTES).is_ok(), "alone it may be as large as it is");
        assert!(count("g", PIECE + 1).is_ok(), "it is gone");
        let counts = answers.0.lock();
        assert_eq!((counts.bytes, counts.users.len()), (0, 0));
    }

    #[test]
    fn only_whole_answers_of_flows_count() {
        let answers = Arc::new(Answers::default());
        let mut nobodys = answer::bytes(200, "text/plain", vec![0; MIB]);
        assert!(answers.count(&mut nobodys, false).unwrap().is_none());
        let mut stream = of("a", 0);
        *stream.body_mut() = http_body_util::StreamBody::new(futures::stream::pending()).boxed_unsync();
        assert!(answers.count(&mut stream, false).unwrap().is_none());
        stream.extensions_mut().insert(Flow { level: Level::Ordinary, user: "a".into() });
        stream.extensions_mut().insert(Whole(MIB));
        let held = answers.count(&mut stream, false).unwrap().unwrap();
        assert_eq!((held.bytes, answers.0.lock().bytes), (MIB, MIB));
    }

    #[tokio::test]
    async fn answer_is_held_until_its_last_piece_is_taken() {
        let answers = Arc::new(Answers::default());
        let size = 2 * PIECE + 1;
        let mut response = of("a", size);
        let held = answers.count(&mut response, false).unwrap().unwrap();
        let mut body = held.until_taken(response).into_body();
        let mut lengths = Vec::new();
        assert_eq!(body.size_hint().exact(), Some(size as u64));
        while let Some(Ok(frame)) = body.frame().await {
            lengths.push(frame.data_ref().unwrap().len());
            let left = size - lengths.iter().sum::<usize>();
            assert_eq!(body.size_hint().exact(), Some(left as u64));
            assert_eq!((body.is_end_stream(), answers.0.lock().bytes), (left == 0, size));
        }
        assert_eq!(lengths, [PIECE, PIECE, 1]);
        drop(body);
        assert_eq!(answers.0.lock().bytes, 0);
    }
}
