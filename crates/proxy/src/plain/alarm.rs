//! One timer for a connection's life. Most deadlines are never met: moving one forward costs a comparison, not a change
//! of the timer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

pub(super) struct Alarm {
    deadline: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Alarm {
    pub fn new(timeouts: Duration) -> Self {
        let deadline = Instant::now() + timeouts;
        Alarm { deadline, timer: Box::pin(sleep_until(deadline)) }
    }

    pub fn set(&mut self, now: Instant, timeouts: Duration) {
        self.deadline = now + timeouts;
        if self.deadline < self.timer.deadline() {
            self.timer.as_mut().reset(self.deadline);
        }
    }

    /// Ready when the deadline has passed.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if Instant::now() >= self.deadline {
                return Poll::Ready(());
            }
            let deadline = self.deadline;
            self.timer.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn deadlines_move_both_ways() {
        let begun = Instant::now();
        let mut alarm = Alarm::new(Duration::from_secs(75));
        alarm.set(begun, Duration::from_secs(60));
        alarm.set(begun, Duration::from_secs(90));
        poll_fn(|cx| alarm.poll(cx)).await;
        assert_eq!(begun.elapsed().as_secs(), 90);
        alarm.set(Instant::now(), Duration::from_secs(1));
        poll_fn(|cx| alarm.poll(cx)).await;
        assert_eq!(begun.elapsed().as_secs(), 91);
    }
}
