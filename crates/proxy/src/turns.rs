//! Work that costs memory while it lasts, a few at a time: connecting to one endpoint, or a handshake with a client. When
//! thousands come in one moment, the rest waits in order, which costs next to nothing.
//!
//! Nobody is held up for ever: where no one has come to a good end for a while, those who are at it are not worth waiting
//! for, and the next goes on beside them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// Without a success in this time, turns are not waited for.
const STALLED: Duration = Duration::from_secs(1);
/// New connections to one endpoint that are being made.
const CONNECTING: usize = 64;
/// Endpoints of which nobody wants anything are forgotten when there are more.
const ENDPOINTS: usize = 64;

#[derive(Debug)]
pub struct Turns {
    free: Arc<Semaphore>,
    successes: AtomicU64,
}

/// Over when it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    /// `None` for one that went on beside the others.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Turns {
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Turns { free: Arc::new(Semaphore::new(most)), successes: AtomicU64::new(0) })
    }

    /// Who asks first is first.
    pub async fn take(self: &Arc<Self>) -> Turn {
        if let Ok(permit) = self.free.clone().try_acquire_owned() {
            return self.turn(Some(permit));
        }
        let mut free = pin!(self.free.clone().acquire_owned());
        loop {
            let before = self.successes.load(Ordering::Relaxed);
            tokio::select! {
                permit = free.as_mut() => return self.turn(permit.ok()),
                () = sleep(STALLED) => if self.successes.load(Ordering::Relaxed) == before {
                    return self.turn(None);
                }
            }
        }
    }

    fn turn(self: &Arc<Self>, permit: Option<OwnedSemaphorePermit>) -> Turn {
        Turn { turns: self.clone(), _permit: permit }
    }
}

impl Turn {
    /// The work came to a good end.
    pub fn succeeded(self) {
        self.turns.successes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Each endpoint has its own, so that one that does not answer keeps nobody from the others.
#[derive(Debug, Default)]
pub struct EndpointTurns(Mutex<HashMap<SocketAddr, Weak<Turns>>>);

impl EndpointTurns {
    pub fn of(&self, endpoint: SocketAddr) -> Arc<Turns> {
        let mut known = self.0.lock();
        if let Some(turns) = known.get(&endpoint).and_then(Weak::upgrade) {
            return turns;
        }
        if known.len() >= ENDPOINTS {
            known.retain(|_, turns| turns.strong_count() > 0);
        }
        let turns = Turns::new(CONNECTING);
        known.insert(endpoint, Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_are_few_at_a_time_and_all_come() {
        let (turns, running, most) =
            (Turns::new(3), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let each = (0..100).map(|_| {
            let (turns, running, most) = (turns.clone(), running.clone(), most.clone());
            tokio::spawn(async move {
                let turn = turns.take().await;
                most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(Duration::from_millis(500)).await;
                running.fetch_sub(1, Ordering::Relaxed);
                turn.succeeded();
            })
        });
        for one in each.collect::<Vec<_>>() {
            one.await.unwrap();
        }
        assert_eq!(most.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_turns_are_not_waited_for() {
        let turns = Turns::new(1);
        let stalled = turns.take().await;
        let begun = Instant::now();
        turns.take().await.succeeded();
        assert_eq!(begun.elapsed(), STALLED);
        drop(stalled);
        let begun = Instant::now();
        drop(turns.take().await);
        assert_eq!(begun.elapsed(), Duration::ZERO, "given back");
    }

    #[test]
    fn endpoints_have_turns_of_their_own() {
        let turns = EndpointTurns::default();
        let at = |port: usize| turns.of(SocketAddr::from(([10, 0, 0, 1], u16::try_from(port).unwrap())));
        let first = at(1);
        assert!(Arc::ptr_eq(&first, &at(1)) && !Arc::ptr_eq(&first, &at(2)));
        (3..1000).for_each(|port| drop(at(port)));
        assert!(turns.0.lock().len() <= ENDPOINTS, "nothing is remembered of those that nobody wants");
        assert!(Arc::ptr_eq(&first, &at(1)));
    }
}
