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

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;

pub(crate) use hub::{Attach, Hub};
pub(crate) use queue::Queue;

use crate::{Event, Result, Revision, WatchItem};

/// A running watch. Dropping it ends it.
pub struct Watch {
    hub: Arc<Hub>,
    queue: Arc<Queue>,
    opening: Option<Box<Opening>>,
}

/// Brings events into the form in which readers know their values.
pub trait Opener: Send + Sync + 'static {
    /// None if the event is in that form already.
    fn open(&self, event: &Arc<Event>) -> Option<BoxFuture<'static, Result<Event>>>;
}

struct Opening {
    opener: Arc<dyn Opener>,
    /// The event that is being brought into its form: those behind it wait. Never locked, but for the watch to be shared.
    event: Mutex<Option<BoxFuture<'static, Result<Event>>>>,
    failed: bool,
}

impl Watch {
    /// The next item; None when the store closed. After an error nothing follows.
    pub async fn next(&mut self) -> Option<Result<WatchItem>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchItem>>> {
        // A task that always finds an item must still let others run.
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        let polled = match &mut self.opening {
            None => self.queue.poll_next(cx),
            Some(opening) => opening.poll_next(&self.queue, cx),
        };
        if polled.is_ready() {
            budget.made_progress();
        }
        polled
    }

    /// The same watch, whose events come in the form that `opener` gives them.
    pub fn opened_by(mut self, opener: Arc<dyn Opener>) -> Watch {
        self.opening = Some(Box::new(Opening { opener, event: Mutex::new(None), failed: false }));
        self
    }

    pub(crate) fn new(hub: Arc<Hub>, queue: Arc<Queue>) -> Watch {
        Watch { hub, queue, opening: None }
    }

    pub(crate) fn promise_progress(&self, revision: Revision) {
        self.hub.promise_progress(&self.queue, revision);
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }
}

impl Opening {
    fn poll_next(&mut self, queue: &Queue, cx: &mut Context<'_>) -> Poll<Option<Result<WatchItem>>> {
        if self.failed {
            return Poll::Ready(None);
        }
        loop {
            let opening = self.event.get_mut();
            if let Some(event) = opening {
                let opened = ready!(event.poll_unpin(cx));
                *opening = None;
                self.failed = opened.is_err();
                return Poll::Ready(Some(opened.map(|event| WatchItem::Event(Arc::new(event)))));
            }
            let item = ready!(queue.poll_next(cx));
            if let Some(Ok(WatchItem::Event(event))) = &item {
                *opening = self.opener.open(event);
            }
            if opening.is_none() {
                return Poll::Ready(item);
            }
        }
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
