//! What waits to be sent: bounded in bytes, never waited for, and counted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minik8s_metrics::Text;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Of one batch.
const BATCH_BYTES: usize = 512 << 10;
const BATCH_ITEMS: usize = 5000;

/// What something takes of memory, about.
pub trait Weighed {
    fn weight(&self) -> usize;
}

/// Cheap to clone: all clones are one queue.
pub struct Queue<T>(Arc<Inner<T>>);

struct Inner<T> {
    /// What is in it: `logs`, `spans`.
    signal: &'static str,
    most: usize,
    waiting: Mutex<Waiting<T>>,
    filled: Notify,
    dropped: AtomicU64,
    sent: AtomicU64,
    rejected: AtomicU64,
    failures: AtomicU64,
}

struct Waiting<T> {
    items: VecDeque<T>,
    bytes: usize,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Queue(self.0.clone())
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&self.0.signal).finish()
    }
}

impl<T: Weighed> Queue<T> {
    /// For at most `most` bytes.
    pub fn new(signal: &'static str, most: usize) -> Self {
        Queue(Arc::new(Inner {
            signal,
            most,
            waiting: Mutex::new(Waiting { items: VecDeque::new(), bytes: 0 }),
            filled: Notify::new(),
            dropped: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }))
    }

    pub fn signal(&self) -> &'static str {
        self.0.signal
    }

    /// Says whether there was room; what does not fit is dropped.
    pub fn push(&self, item: T) -> bool {
        let weight = item.weight();
        let mut waiting = self.0.waiting.lock();
        if waiting.bytes + weight > self.0.most {
            drop(waiting);
            self.count_dropped(1);
            return false;
        }
        waiting.bytes += weight;
        waiting.items.push_back(item);
        let is_news = waiting.items.len() == 1 || waiting.is_batch();
        drop(waiting);
        if is_news {
            self.0.filled.notify_one();
        }
        true
    }

    /// Whether half of it is free: for those who can leave what they have where it is.
    pub fn has_room(&self) -> bool {
        self.0.waiting.lock().bytes <= self.0.most / 2
    }

    /// What was lost on its way into the queue.
    pub fn count_dropped(&self, count: u64) {
        self.0.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// The next batch; empty if nothing waits.
    pub fn take(&self) -> Vec<T> {
        let mut waiting = self.0.waiting.lock();
        let mut batch = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH_BYTES && batch.len() < BATCH_ITEMS {
            let Some(item) = waiting.items.pop_front() else { break };
            bytes += item.weight();
            batch.push(item);
        }
        waiting.bytes -= bytes;
        if waiting.items.is_empty() {
            // After a collector was away, nothing of it stays in memory.
            waiting.items = VecDeque::new();
        }
        batch
    }

    /// Until something waits.
    pub async fn filled(&self) {
        while self.0.waiting.lock().items.is_empty() {
            self.0.filled.notified().await;
        }
    }

    /// Until a whole batch waits.
    pub(crate) async fn batch_filled(&self) {
        while !self.0.waiting.lock().is_batch() {
            self.0.filled.notified().await;
        }
    }

    pub(crate) fn count_sent(&self, count: usize) {
        self.0.sent.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_rejected(&self, count: usize) {
        self.0.rejected.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_failure(&self) {
        self.0.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Its counters in Prometheus' text format. Those of several queues make one page each name only once.
    pub fn page(&self) -> String {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut text = Text::default();
        for (what, help, value) in [
            ("sent_total", "Records that collectors have taken.", of(&self.0.sent)),
            ("dropped_total", "Records for which there was no room.", of(&self.0.dropped)),
            ("rejected_total", "Records that collectors have refused.", of(&self.0.rejected)),
            ("failed_requests_total", "Requests that collectors did not answer.", of(&self.0.failures)),
        ] {
            let name = format!("minik8s_export_{}_{what}", self.0.signal);
            text.metric(&name, "counter", help);
            text.sample(&name, &[], value as f64, None);
        }
        text.finish()
    }
}

impl<T> Waiting<T> {
    fn is_batch(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.items.len() >= BATCH_ITEMS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weighed for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    #[test]
    fn queue_drops_and_counts_what_does_not_fit() {
        let queue = Queue::new("logs", 100);
        assert!(queue.has_room() && queue.push(60_usize));
        assert!(!queue.push(41) && !queue.has_room());
        assert!(queue.push(40));
        assert!(queue.page().lines().any(|line| line == "minik8s_export_logs_dropped_total 1"));
        assert_eq!(queue.take(), [60, 40]);
        assert!(queue.take().is_empty() && queue.has_room());
    }

    #[test]
    fn batch_is_bounded() {
        let queue = Queue::new("logs", 10 * BATCH_BYTES);
        for _ in 0..10 {
            assert!(queue.push(BATCH_BYTES / 2));
        }
        assert_eq!(queue.take().len(), 2);
        let many = Queue::new("logs", 10 * BATCH_ITEMS);
        for _ in 0..2 * BATCH_ITEMS {
            assert!(many.push(1_usize));
        }
        assert_eq!(many.take().len(), BATCH_ITEMS);
    }
}
