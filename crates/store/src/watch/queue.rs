//! What one watcher has yet to read: filled by the hub or by a replay of history, emptied by the watcher.
//!
//! Not a tokio channel, because that allocates room for 32 items up front, and because cutting off a slow
//! watcher must free what it holds at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::{Error, Event, Result, Revision, WatchItem};

/// A drained queue keeps room for this many items; more is given back.
const KEPT_CAPACITY: usize = 16;

/// What a queue may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub events: usize,
    pub bytes: usize,
}

pub(crate) struct Queue {
    prefix: Arc<str>,
    id: u64,
    limit: Limit,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    items: VecDeque<WatchItem>,
    /// The bytes of the items' values.
    bytes: usize,
    end: Option<End>,
    consumer: Option<Waker>,
    producer: Option<Waker>,
    /// Up to here the hub need not deliver: the watcher has it from history, or did not ask for it.
    attached_at: Revision,
    /// The newest revision the watcher was told of.
    told: Revision,
    /// Events came since the hub last looked.
    busy: bool,
    /// Progress was asked for, once this revision is delivered.
    promised: Option<Revision>,
}

enum End {
    Closed,
    Failed(Error),
}

impl Queue {
    pub(super) fn new(prefix: Arc<str>, id: u64, limit: Limit) -> Self {
        Queue { prefix, id, limit, state: Mutex::default() }
    }

    pub(crate) fn prefix(&self) -> &Arc<str> {
        &self.prefix
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// A live event. A full queue cuts the watcher off. Returns whom to wake.
    pub(super) fn push_live(&self, event: &Arc<Event>) -> Option<Waker> {
        let mut state = self.state.lock();
        if state.end.is_some() || event.revision <= state.attached_at {
            return None;
        }
        if state.items.len() >= self.limit.events || state.bytes >= self.limit.bytes {
            state.items = VecDeque::new();
            state.bytes = 0;
            state.end = Some(End::Failed(Error::SlowWatcher));
        } else {
            state.push_event(event);
        }
        state.consumer.take()
    }

    /// Events from history. They may be a few more than fit: the caller asks for room beforehand.
    pub(crate) fn push_replayed<'a>(&self, events: impl IntoIterator<Item = &'a Arc<Event>>) {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return;
        }
        events.into_iter().for_each(|event| state.push_event(event));
        wake(state.consumer.take());
    }

    /// How many events fit before the watcher counts as slow.
    pub(crate) fn room(&self) -> usize {
        let state = self.state.lock();
        if state.bytes >= self.limit.bytes { 0 } else { self.limit.events.saturating_sub(state.items.len()) }
    }

    /// Waits until the watcher has read half of what it could hold; false when nobody reads any more.
    pub(crate) async fn wait_for_room(&self) -> bool {
        std::future::poll_fn(|cx| {
            let mut state = self.state.lock();
            if state.end.is_some() {
                return Poll::Ready(false);
            }
            if state.is_half_empty(self.limit) {
                return Poll::Ready(true);
            }
            state.producer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// From now on events after `revision` come live.
    pub(super) fn attached(&self, revision: Revision) {
        let mut state = self.state.lock();
        state.attached_at = revision;
        state.told = state.told.max(revision);
    }

    pub(super) fn promise(&self, revision: Revision) {
        let mut state = self.state.lock();
        state.promised = state.promised.max(Some(revision));
    }

    /// Keeps a promise of progress if `dispatched` is far enough. Returns whether none is left.
    pub(super) fn keep_promise(&self, dispatched: Revision) -> bool {
        let mut state = self.state.lock();
        let reached = dispatched.max(state.attached_at);
        match state.promised {
            Some(promised) if promised > reached => state.end.is_some(),
            Some(_) => {
                state.promised = None;
                state.push_progress(reached);
                true
            }
            None => true,
        }
    }

    /// Tells of progress if the watcher has been quiet since the last call. Returns whether it still has
    /// to be told.
    pub(super) fn tell_if_quiet(&self, dispatched: Revision) -> bool {
        let mut state = self.state.lock();
        let was_busy = std::mem::take(&mut state.busy);
        if state.end.is_some() || state.told >= dispatched {
            return false;
        }
        if was_busy || !state.items.is_empty() {
            return true;
        }
        state.push_progress(dispatched);
        false
    }

    /// Ends the watch after what is queued.
    pub(crate) fn close(&self) {
        self.end(End::Closed);
    }

    /// Ends the watch with an error after what is queued.
    pub(crate) fn fail(&self, error: Error) {
        self.end(End::Failed(error));
    }

    fn end(&self, end: End) {
        let mut state = self.state.lock();
        state.end.get_or_insert(end);
        let wakers = (state.consumer.take(), state.producer.take());
        drop(state);
        wake(wakers.0);
        wake(wakers.1);
    }

    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchItem>>> {
        let mut state = self.state.lock();
        if let Some(item) = state.items.pop_front() {
            if state.items.is_empty() && state.items.capacity() > KEPT_CAPACITY {
                state.items = VecDeque::new();
            }
            if let WatchItem::Event(event) = &item {
                state.bytes -= event.value_bytes();
            }
            if state.is_half_empty(self.limit) {
                wake(state.producer.take());
            }
            return Poll::Ready(Some(Ok(item)));
        }
        match state.end.take() {
            Some(End::Failed(error)) => {
                state.end = Some(End::Closed);
                Poll::Ready(Some(Err(error)))
            }
            Some(End::Closed) => {
                state.end = Some(End::Closed);
                Poll::Ready(None)
            }
            None => {
                if !state.consumer.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    state.consumer = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl State {
    fn is_half_empty(&self, limit: Limit) -> bool {
        self.items.len() * 2 <= limit.events && self.bytes * 2 <= limit.bytes
    }

    fn push_event(&mut self, event: &Arc<Event>) {
        self.told = event.revision;
        self.busy = true;
        self.bytes += event.value_bytes();
        self.items.push_back(WatchItem::Event(event.clone()));
    }

    fn push_progress(&mut self, revision: Revision) {
        if self.end.is_some() {
            return;
        }
        self.told = revision;
        self.items.push_back(WatchItem::Progress(revision));
        wake(self.consumer.take());
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::Change;

    fn queue(events: usize) -> Queue {
        Queue::new("/".into(), 0, Limit { events, bytes: 1000 })
    }

    fn event(revision: Revision) -> Arc<Event> {
        Arc::new(Event { revision, key: "/a".into(), change: Change::Delete, previous: None })
    }

    /// What is to be read now, in short.
    fn read(queue: &Queue) -> String {
        let mut read = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            read.push(match queue.poll_next(&mut context) {
                Poll::Ready(Some(Ok(WatchItem::Event(event)))) => event.revision.to_string(),
                Poll::Ready(Some(Ok(WatchItem::Progress(revision)))) => format!("progress {revision}"),
                Poll::Ready(Some(Err(error))) => error.to_string(),
                Poll::Ready(None) => return format!("{}, end", read.join(", ")),
                Poll::Pending => return read.join(", "),
            });
        }
    }

    #[test]
    fn an_idle_watch_is_small() {
        assert!(size_of::<Queue>() <= 256, "{}", size_of::<Queue>());
        let queue = queue(1000);
        assert_eq!(queue.state.lock().items.capacity(), 0);
        (1..900).for_each(|revision| drop(queue.push_live(&event(revision))));
        read(&queue);
        assert!(queue.state.lock().items.capacity() <= KEPT_CAPACITY, "it gives back what it does not need");
    }

    #[test]
    fn a_full_queue_ends_with_an_error_and_frees_its_items() {
        let queue = queue(2);
        (1..=3).for_each(|revision| drop(queue.push_live(&event(revision))));
        assert_eq!(queue.state.lock().items.capacity(), 0);
        drop(queue.push_live(&event(4)));
        assert_eq!(read(&queue), "the watcher fell too far behind and was cut off, end");
    }

    #[test]
    fn a_few_large_events_fill_it_too() {
        let large = |revision| {
            let change = Change::Put(vec![0; 600].into());
            Arc::new(Event { revision, key: "/a".into(), change, previous: None })
        };
        let queue = queue(1000);
        for revision in 1..9 {
            drop(queue.push_live(&large(revision)));
            assert_eq!(read(&queue), revision.to_string(), "what is read counts no more");
        }
        (1..=2).for_each(|revision| drop(queue.push_live(&large(revision))));
        assert_eq!(queue.room(), 0);
        drop(queue.push_live(&large(3)));
        assert_eq!(read(&queue), "the watcher fell too far behind and was cut off, end");
    }

    #[test]
    fn what_the_watcher_has_from_history_does_not_come_live() {
        let queue = queue(9);
        queue.push_replayed(&[event(1), event(2)]);
        queue.attached(2);
        (1..=3).for_each(|revision| drop(queue.push_live(&event(revision))));
        assert_eq!(read(&queue), "1, 2, 3");
    }

    #[test]
    fn only_quiet_watchers_are_told_and_only_news() {
        let queue = queue(9);
        drop(queue.push_live(&event(5)));
        assert_eq!(read(&queue), "5");
        assert!(queue.tell_if_quiet(7), "it was busy a moment ago");
        assert!(!queue.tell_if_quiet(7));
        assert!(!queue.tell_if_quiet(7));
        assert_eq!(read(&queue), "progress 7");
    }

    #[test]
    fn promises_wait_for_their_revision() {
        let queue = queue(9);
        queue.promise(5);
        assert!(!queue.keep_promise(4));
        drop(queue.push_live(&event(5)));
        assert!(queue.keep_promise(6));
        assert!(queue.keep_promise(7), "it is kept once");
        queue.close();
        assert_eq!(read(&queue), "5, progress 6, end");
    }
}
