//! What waits for the writer. Callers put requests in and sleep until they are answered; the writer takes
//! all there is at once, which is what makes a group: while the disk is busy with one, the next gathers.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::{Commit, Error, Op, Outcome, Result, Revision};

/// A group is not larger than this many bytes of values or commits, so that no fsync takes for ever.
const GROUP_BYTES: usize = 16 << 20;
const GROUP_COMMITS: usize = 4096;

#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    closed: bool,
}

pub(super) enum Request {
    Commit(Commit, oneshot::Sender<Result<Outcome>>),
    Compact(Revision, oneshot::Sender<Result<()>>),
}

/// What the writer is to do next.
pub(super) enum Work {
    Group(Vec<Request>),
    /// Nothing came until the deadline.
    Idle,
    Closed,
}

impl Inbox {
    pub(super) async fn commit(&self, commit: Commit) -> Result<Outcome> {
        let (reply, answer) = oneshot::channel();
        self.put(Request::Commit(commit, reply))?;
        answer.await.map_err(|_| Error::Closed)?
    }

    pub(super) async fn compact(&self, revision: Revision) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.put(Request::Compact(revision, reply))?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Lets the writer finish what is there; nothing new comes in.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_one();
    }

    /// For a writer that is gone: nobody will be answered.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.requests.clear();
    }

    /// Waits for requests, at most until `deadline`.
    pub(super) fn take(&self, deadline: Option<Instant>) -> Work {
        let mut state = self.state.lock();
        loop {
            if !state.requests.is_empty() {
                return Work::Group(state.take_group());
            }
            if state.closed {
                return Work::Closed;
            }
            match deadline {
                None => self.filled.wait(&mut state),
                Some(deadline) => {
                    if self.filled.wait_until(&mut state, deadline).timed_out() && state.requests.is_empty() {
                        return if state.closed { Work::Closed } else { Work::Idle };
                    }
                }
            }
        }
    }

    fn put(&self, request: Request) -> Result<()> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        state.requests.push(request);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }
}

impl State {
    fn take_group(&mut self) -> Vec<Request> {
        let mut bytes = 0;
        let fitting = self.requests.iter().take(GROUP_COMMITS).take_while(|request| {
            bytes += request.bytes();
            bytes <= GROUP_BYTES
        });
        // A request that is too large for any group is one of its own.
        let length = fitting.count().max(1);
        let rest = self.requests.split_off(length);
        std::mem::replace(&mut self.requests, rest)
    }
}

impl Request {
    fn bytes(&self) -> usize {
        let Request::Commit(commit, _) = self else { return 0 };
        let values = commit.ops.iter().map(|op| match op {
            Op::Put { value, .. } => value.len(),
            Op::Delete { .. } => 0,
        });
        values.sum()
    }

    /// Whether the caller has given up waiting; then it need not be done.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Request::Commit(_, reply) => reply.is_closed(),
            Request::Compact(_, reply) => reply.is_closed(),
        }
    }
}
