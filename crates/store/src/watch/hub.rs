//! Where events and watchers meet.
//!
//! The engine first [`publish`](Hub::publish)es events to the window, together with what readers see, and then
//! [`dispatch`](Hub::dispatch)es them. A watch is attached under the watchers' lock: it takes what the window
//! has after its position and gets live only what is newer than the window's end, so nothing is missed and
//! nothing comes twice, wherever between the two steps the engine is. Nothing here waits for anything but
//! its own short locks (order: watchers, window, queue).

use std::sync::Arc;
use std::task::Waker;
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::Watch;
use super::prefix_index::PrefixIndex;
use super::queue::{Limit, Queue};
use super::window::Window;
use crate::moments::{Moment, Moments};
use crate::{Error, Event, Options, Revision};

pub(crate) struct Hub {
    window: RwLock<Window>,
    watchers: Mutex<Watchers>,
    queue_limit: Limit,
    moments: Moments,
}

struct Watchers {
    /// Per prefix in order of their ids.
    queues: PrefixIndex<Vec<Arc<Queue>>>,
    /// Those who asked for progress.
    promised: Vec<Arc<Queue>>,
    next_id: u64,
    dispatched: Revision,
    /// `dispatched` when quiet watchers were last told.
    told: Revision,
    /// Some were too busy then.
    untold: bool,
    closed: bool,
}

/// What came of [`Hub::attach`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attach {
    /// The watch is live.
    Live,
    /// Go on after this revision: with history, or when the watcher has made room.
    Behind(Revision),
}

impl Hub {
    pub(crate) fn new(revision: Revision, options: &Options) -> Arc<Self> {
        Arc::new(Hub {
            window: RwLock::new(Window::new(revision, options)),
            watchers: Mutex::new(Watchers {
                queues: PrefixIndex::default(),
                promised: Vec::new(),
                next_id: 0,
                dispatched: revision,
                told: revision,
                untold: false,
                closed: false,
            }),
            queue_limit: Limit { events: options.watch_queue, bytes: options.watch_queue_bytes },
            moments: Moments::new(options, revision, SystemTime::now()),
        })
    }

    /// The newest events. Hold it only for a moment: it stops the writer.
    pub(crate) fn window(&self) -> RwLockReadGuard<'_, Window> {
        self.window.read()
    }

    /// A watch that gets nothing until it is attached.
    pub(crate) fn subscribe(self: &Arc<Self>, prefix: &str) -> Watch {
        let mut watchers = self.watchers.lock();
        let id = watchers.next_id;
        watchers.next_id += 1;
        let queue = Arc::new(Queue::new(prefix.into(), id, self.queue_limit));
        if watchers.closed {
            queue.close();
        }
        Watch::new(self.clone(), queue)
    }

    /// Makes the watch live, if the window has everything after `after` and the queue has room for it.
    pub(crate) fn attach(&self, queue: &Arc<Queue>, after: Revision) -> Attach {
        let mut watchers = self.watchers.lock();
        let window = self.window.read();
        let Some(events) = window.after(after) else { return Attach::Behind(after) };
        let mut matching =
            events.filter(|event| event.key.starts_with(&**queue.prefix())).cloned().collect::<Vec<_>>();
        let room = queue.room();
        if matching.len() > room {
            cut_between_revisions(&mut matching, room);
            let reached = matching.last().map_or(after, |event| event.revision);
            queue.push_replayed(&matching);
            return Attach::Behind(reached);
        }
        queue.push_replayed(&matching);
        queue.attached(window.end().max(after));
        if watchers.closed {
            queue.close();
            return Attach::Live;
        }
        let queues = watchers.queues.get_or_insert(queue.prefix());
        queues.insert(queues.partition_point(|other| other.id() < queue.id()), queue.clone());
        if !queue.keep_promise(watchers.dispatched) {
            watchers.promised.push(queue.clone());
        }
        Attach::Live
    }

    pub(super) fn detach(&self, queue: &Queue) {
        let mut watchers = self.watchers.lock();
        watchers.queues.remove_if(queue.prefix(), |queues| {
            if let Ok(position) = queues.binary_search_by_key(&queue.id(), |queue| queue.id()) {
                queues.remove(position);
            }
            queues.is_empty()
        });
        watchers.promised.retain(|promised| promised.id() != queue.id());
    }

    /// Adds durable events to the window.
    pub(crate) fn publish(&self, events: &[Arc<Event>], revision: Revision) {
        self.window.write().push(events, revision);
        self.moments.record(revision, SystemTime::now());
    }

    /// When the store was at which revision, from `compacted` on.
    pub(crate) fn moments(&self, compacted: Revision) -> Vec<Moment> {
        self.moments.since(compacted)
    }

    /// Hands published events to those who watch them.
    pub(crate) fn dispatch(&self, events: &[Arc<Event>], revision: Revision) {
        let mut wakers = Vec::new();
        let mut watchers = self.watchers.lock();
        for event in events {
            watchers.queues.for_each_prefix_of(&event.key, |queues| {
                wakers.extend(queues.iter().filter_map(|queue| queue.push_live(event)));
            });
        }
        watchers.dispatched = revision;
        watchers.promised.retain(|queue| !queue.keep_promise(revision));
        drop(watchers);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Sends progress to `queue` once everything up to `revision` has been dispatched.
    pub(super) fn promise_progress(&self, queue: &Arc<Queue>, revision: Revision) {
        let mut watchers = self.watchers.lock();
        queue.promise(revision);
        // Before it is attached, `attach` keeps the promise.
        if watchers.is_attached(queue) && !queue.keep_promise(watchers.dispatched) {
            watchers.promised.push(queue.clone());
        }
    }

    /// Whether quiet watchers do not know of the newest revision.
    pub(crate) fn has_news(&self) -> bool {
        let watchers = self.watchers.lock();
        watchers.told < watchers.dispatched || watchers.untold
    }

    /// Tells quiet watchers how far the store is. The engine calls this every [`Options::progress`].
    pub(crate) fn tell_quiet_watchers(&self) {
        let mut watchers = self.watchers.lock();
        let dispatched = watchers.dispatched;
        watchers.told = dispatched;
        let untold = watchers.queues.values().flatten().filter(|queue| queue.tell_if_quiet(dispatched));
        watchers.untold = untold.count() > 0;
    }

    /// History was lost on the way: every watch ends with `error`, new ones go on after `revision`.
    pub(crate) fn restart(&self, error: &Error, revision: Revision) {
        let mut watchers = self.watchers.lock();
        watchers.queues.values().flatten().for_each(|queue| queue.fail(error.clone()));
        watchers.queues = PrefixIndex::default();
        watchers.dispatched = revision;
        self.window.write().restart(revision);
    }

    /// Ends every watch, after what it has yet to read.
    pub(crate) fn close(&self) {
        let mut watchers = self.watchers.lock();
        watchers.closed = true;
        watchers.queues.values().flatten().for_each(|queue| queue.close());
        watchers.queues = PrefixIndex::default();
    }
}

impl Watchers {
    fn is_attached(&mut self, queue: &Queue) -> bool {
        let queues = self.queues.get(queue.prefix());
        queues.is_some_and(|queues| queues.binary_search_by_key(&queue.id(), |queue| queue.id()).is_ok())
    }
}

/// Shortens `events` to `length`, or to a little more where that would be in the middle of a revision.
fn cut_between_revisions(events: &mut Vec<Arc<Event>>, length: usize) {
    let last = length.checked_sub(1).and_then(|last| events.get(last)).map_or(0, |event| event.revision);
    events.truncate(events.partition_point(|event| event.revision <= last));
}
