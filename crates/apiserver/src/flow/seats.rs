//! Seats for requests that are worked on, given out by a [`FairQueue`]. Who waits is woken when it is their turn, and
//! gives up by being dropped. Never held while a client sends or reads.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Flow;
use super::fair_queue::{Bounds, Entered, FairQueue};

/// Who has waited this long is told to come back.
const TIMEOUT: Duration = Duration::from_secs(10);

pub struct Seats(Mutex<FairQueue<oneshot::Sender<()>>>);

/// Given back when dropped.
pub struct Seat {
    seats: Arc<Seats>,
    flow: Flow,
}

impl Seats {
    pub fn new(bounds: Bounds) -> Self {
        Seats(Mutex::new(FairQueue::new(bounds)))
    }

    pub fn taken(&self) -> usize {
        self.0.lock().taken()
    }

    pub fn waiting(&self) -> usize {
        self.0.lock().waiting()
    }

    /// None: too many others wait, or for too long.
    pub async fn enter(self: &Arc<Self>, flow: &Flow) -> Option<Seat> {
        let (mut bell, seats, flow) = (None, self.clone(), flow.clone());
        let entered = self.0.lock().enter(&flow, || {
            let (ring, rung) = oneshot::channel();
            bell = Some(rung);
            ring
        });
        match (entered, bell) {
            (Entered::Seated, _) => Some(Seat { seats, flow }),
            (Entered::Queued(turn), Some(bell)) => {
                let mut waiting = Waiting { seats, flow, turn, bell };
                match tokio::time::timeout(TIMEOUT, &mut waiting.bell).await {
                    Ok(Ok(())) => Some(Seat { seats: waiting.seats.clone(), flow: waiting.flow.clone() }),
                    // Sent away to make room, or tired of waiting.
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn leave(&self, flow: &Flow) {
        // Rung before anybody else looks: who gives up finds the bell silent only if the seat is not theirs.
        let mut queue = self.0.lock();
        if let Some(bell) = queue.leave(flow) {
            let _ = bell.send(());
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.leave(&self.flow);
    }
}

/// A place in the queue, left when dropped.
struct Waiting {
    seats: Arc<Seats>,
    flow: Flow,
    turn: u64,
    bell: oneshot::Receiver<()>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let waited = self.seats.0.lock().give_up(&self.flow, self.turn);
        // A bell that rang and was not heard left a seat. Once it was heard it is closed, and the seat is in use.
        if !waited && self.bell.try_recv() == Ok(()) {
            self.seats.leave(&self.flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::super::Level;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn seats_go_to_who_waits_and_come_back_from_who_gave_up() {
        let seats = Arc::new(Seats::new(Bounds { seats: 1, reserved: 0, waiting: 2, waiting_per_user: 1 }));
        let [a, b, c] = ["a", "b", "c"].map(|name| Flow { level: Level::Ordinary, user: name.into() });
        let first = seats.enter(&a).await.unwrap();
        let mut second = Box::pin(seats.enter(&b));
        assert!(second.as_mut().now_or_never().is_none(), "it waits");
        assert!(seats.enter(&b).now_or_never().unwrap().is_none(), "its queue is full");
        let mut third = Box::pin(seats.enter(&c));
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        // The seat was given to one who is gone before taking it: the next one gets it.
        drop(second);
        let third = third.now_or_never().unwrap().unwrap();
        assert_eq!((seats.taken(), seats.waiting()), (1, 0));
        assert!(seats.enter(&a).await.is_none(), "nobody left in time");
        assert_eq!((seats.taken(), seats.waiting()), (1, 0));
        drop(third);
        assert_eq!(seats.taken(), 0);
    }
}
