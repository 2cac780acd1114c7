//! What waits for the writer. Callers put requests in and sleep until they are answered; the writer takes
//! all there is at once, which is what makes a group: while the disk is busy with one, the next gathers.
//! Before a caller calls the writer it lets those go first who are ready to run: on a busy machine they have
//! something for the same group, on an idle one there are none.

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
    /// The writer is wanted; then there is something for it.
    called: bool,
    closed: bool,
}

pub(super) enum Request {
    Commit(Commit, oneshot::Sender<Result<Outcome>>),
    Compact(Revision, oneshot::Sender<Result<()>>),
}

/// What the writer is to do next.
pub(super) enum Work {
    Group(Vec<Request>),
    /// Nobody called until the deadline.
    Idle,
    Closed,
}

impl Inbox {
    pub(super) async fn commit(&self, commit: Commit) -> Result<Outcome> {
        let (reply, answer) = oneshot::channel();
        self.put(Request::Commit(commit, reply))?;
        tokio::task::yield_now().await;
        self.call();
        answer.await.map_err(|_| Error::Closed)?
    }

    pub(super) async fn compact(&self, revision: Revision) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.put(Request::Compact(revision, reply))?;
        self.call();
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
        state.called = false;
        state.requests.clear();
    }

    /// Waits for requests, at most until `deadline`.
    pub(super) fn take(&self, deadline: Option<Instant>) -> Work {
        let mut state = self.state.lock();
        loop {
            if state.called || (state.closed && !state.requests.is_empty()) {
                return Work::Group(state.take_group());
            }
            if state.closed {
                return Work::Closed;
            }
            match deadline {
                None => self.filled.wait(&mut state),
                Some(deadline) => {
                    let is_late = self.filled.wait_until(&mut state, deadline).timed_out();
                    if is_late && !state.called && !state.closed {
                        return Work::Idle;
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
        Ok(())
    }

    fn call(&self) {
        let mut state = self.state.lock();
        // One who called earlier may have called for this one too.
        if !state.called && !state.requests.is_empty() {
            state.called = true;
            drop(state);
            self.filled.notify_one();
        }
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
        self.called = !rest.is_empty();
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn those_who_are_ready_go_together() {
        let inbox = Arc::new(Inbox::default());
        let writer = std::thread::spawn({
            let inbox = inbox.clone();
            move || {
                let mut groups = Vec::new();
                while let Work::Group(group) = inbox.take(None) {
                    groups.push(group.len());
                    for request in group {
                        let Request::Commit(_, reply) = request else { panic!("nobody compacts") };
                        let _ = reply.send(Ok(Outcome::Committed(1)));
                    }
                }
                groups
            }
        });
        for _ in 0..2 {
            let commits = (0..5).map(|_| {
                let inbox = inbox.clone();
                tokio::spawn(async move { inbox.commit(Commit::default()).await })
            });
            for committed in futures::future::join_all(commits).await {
                assert_eq!(committed.unwrap().unwrap(), Outcome::Committed(1));
            }
        }
        inbox.close();
        assert_eq!(writer.join().unwrap(), [5, 5]);
        assert!(matches!(inbox.commit(Commit::default()).await, Err(Error::Closed)));
    }
}
