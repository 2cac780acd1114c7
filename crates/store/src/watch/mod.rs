//! Watching: one hub per store takes every event once and hands it to the queues of those who asked.
//!
//! An idle watch is one small allocation, because a cluster has thousands of them: queues grow when events
//! arrive and shrink when they are read. The hub never waits for a watcher: one that does not keep up is cut
//! off. How a watch catches up with history is the engine's business; see [`Hub::attach`].

mod hub;
mod prefix_index;
mod queue;
mod window;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

pub(crate) use hub::{Attach, Hub};
pub(crate) use queue::Queue;

use crate::{Result, Revision, WatchItem};

/// A running watch. Dropping it ends it.
pub struct Watch {
    hub: Arc<Hub>,
    queue: Arc<Queue>,
}

impl Watch {
    /// The next item; None when the store closed. After an error nothing follows.
    pub async fn next(&mut self) -> Option<Result<WatchItem>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchItem>>> {
        // A task that always finds an item must still let others run.
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        let polled = self.queue.poll_next(cx);
        if polled.is_ready() {
            budget.made_progress();
        }
        polled
    }

    pub(crate) fn promise_progress(&self, revision: Revision) {
        self.hub.promise_progress(&self.queue, revision);
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.queue.close();
        self.hub.detach(&self.queue);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("prefix", &self.queue.prefix()).finish_non_exhaustive()
    }
}
