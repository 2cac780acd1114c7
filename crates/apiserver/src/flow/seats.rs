//! Seats for requests that are worked on, given out by a [`FairQueue`]. Who waits is woken when it is their turn, and
//! gives up by being dropped. Never held while a client sends or reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::fair_queue::{Bounds, Entered, FairQueue, LevelCounts};
use super::schema::FlowKey;

/// Who has waited this long is told to come back.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a request does, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    ReadOnly,
    Mutating,
}

pub struct Seats {
    queue: Mutex<FairQueue<FlowKey, oneshot::Sender<()>>>,
    read_only: AtomicUsize,
    mutating: AtomicUsize,
}

/// Given back when dropped.
pub struct Seat {
    seats: Arc<Seats>,
    level: Arc<str>,
    flow: FlowKey,
    kind: RequestKind,
}

impl Seats {
    pub fn new(seats: usize) -> Self {
        let (read_only, mutating) = Default::default();
        Seats { queue: Mutex::new(FairQueue::new(seats)), read_only, mutating }
    }

    pub fn configure(&self, levels: &BTreeMap<Arc<str>, Bounds>) {
        for bell in self.queue.lock().configure(levels) {
            let _ = bell.send(());
        }
    }

    pub fn taken(&self, kind: RequestKind) -> usize {
        self.of(kind).load(Ordering::Relaxed)
    }

    pub fn counts(&self) -> Vec<(Arc<str>, LevelCounts)> {
        self.queue.lock().counts().map(|(name, counts)| (name.clone(), counts)).collect()
    }

    /// None: too many others wait, or for too long.
    pub async fn enter(self: &Arc<Self>, level: &Arc<str>, flow: FlowKey, kind: RequestKind) -> Option<Seat> {
        let (mut bell, seats, level) = (None, self.clone(), level.clone());
        let entered = self.queue.lock().enter(&level, &flow, || {
            let (ring, rung) = oneshot::channel();
            bell = Some(rung);
            ring
        });
        match (entered, bell) {
            (Entered::Seated, _) => Some(seats.seat(level, flow, kind)),
            (Entered::Queued(turn), Some(bell)) => {
                let mut waiting = Waiting { seats, level, flow, turn, bell };
                match tokio::time::timeout(TIMEOUT, &mut waiting.bell).await {
                    Ok(Ok(())) => {
                        Some(waiting.seats.clone().seat(waiting.level.clone(), waiting.flow.clone(), kind))
                    }
                    // Sent away to make room, or tired of waiting.
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn seat(self: Arc<Self>, level: Arc<str>, flow: FlowKey, kind: RequestKind) -> Seat {
        self.of(kind).fetch_add(1, Ordering::Relaxed);
        Seat { seats: self, level, flow, kind }
    }

    fn of(&self, kind: RequestKind) -> &AtomicUsize {
        match kind {
            RequestKind::ReadOnly => &self.read_only,
            RequestKind::Mutating => &self.mutating,
        }
    }

    fn leave(&self, level: &Arc<str>, flow: &FlowKey) {
        // Rung before anybody else looks: who gives up finds the bell silent only if the seat is not theirs.
        let mut queue = self.queue.lock();
        if let Some(bell) = queue.leave(level, flow) {
            let _ = bell.send(());
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.of(self.kind).fetch_sub(1, Ordering::Relaxed);
        self.seats.leave(&self.level, &self.flow);
    }
}

/// A place in the queue, left when dropped.
struct Waiting {
    seats: Arc<Seats>,
    level: Arc<str>,
    flow: FlowKey,
    turn: u64,
    bell: oneshot::Receiver<()>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let waited = self.seats.queue.lock().give_up(&self.level, &self.flow, self.turn);
        // A bell that rang and was not heard left a seat. Once it was heard it is closed, and the seat is in use.
        if !waited && self.bell.try_recv() == Ok(()) {
            self.seats.leave(&self.level, &self.flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn seats_go_to_who_waits_and_come_back_from_who_gave_up() {
        let seats = Arc::new(Seats::new(1));
        let level: Arc<str> = "low".into();
        let bounds = Bounds { seats: 1, lendable: 0, borrowable: 0, waiting: 2, waiting_per_flow: 1 };
        seats.configure(&BTreeMap::from([(level.clone(), bounds)]));
        let enter = |name: &str| {
            let flow = FlowKey { schema: "s".into(), distinguisher: name.into() };
            let (seats, level) = (seats.clone(), level.clone());
            async move { seats.enter(&level, flow, RequestKind::ReadOnly).await }.boxed()
        };
        let counts = || seats.counts()[0].1;
        let first = enter("a").await.unwrap();
        let mut second = enter("b");
        assert!(second.as_mut().now_or_never().is_none(), "it waits");
        assert!(enter("b").now_or_never().unwrap().is_none(), "its queue is full");
        let mut third = enter("c");
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        // The seat was given to one who is gone before taking it: the next one gets it.
        drop(second);
        let third = third.now_or_never().unwrap().unwrap();
        assert_eq!((counts().taken, counts().waiting, seats.taken(RequestKind::ReadOnly)), (1, 0, 1));
        assert!(enter("a").await.is_none(), "nobody left in time");
        assert_eq!((counts().taken, counts().waiting), (1, 0));
        drop(third);
        assert_eq!((counts().taken, seats.taken(RequestKind::ReadOnly)), (0, 0));
    }
}
