//! A deduplicating queue of keys with delays and back-off.
//!
//! A key waits at most once; a key that arrives while it is being worked on is handed out again when that
//! work is done, so no two workers ever hold the same key. It carries keys, never what happened to them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Backoff;

/// The longest pause after a conflict.
const LONGEST_AFTER_CONFLICT: Duration = Duration::from_secs(1);

pub struct Queue<K> {
    state: Mutex<State<K>>,
    wake: Notify,
    backoff: Backoff,
}

struct State<K> {
    ready: VecDeque<K>,
    /// The same keys as `ready`, and those to hand out again after the work in progress.
    wanted: HashSet<K>,
    active: HashSet<K>,
    delayed: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, (Instant, u64)>,
    sequence: u64,
    failures: HashMap<K, u32>,
}

impl<K: Hash + Eq + Clone> Queue<K> {
    pub fn new(backoff: Backoff) -> Self {
        let state = State {
            ready: VecDeque::new(),
            wanted: HashSet::new(),
            active: HashSet::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            sequence: 0,
            failures: HashMap::new(),
        };
        Queue { state: Mutex::new(state), wake: Notify::new(), backoff }
    }

    pub fn add(&self, key: K) {
        if self.state.lock().want(key) {
            self.wake.notify_one();
        }
    }

    /// Adds the key later; an earlier appointment stands.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        self.state.lock().appoint(key, Instant::now() + delay);
        self.wake.notify_one();
    }

    /// The next key; it is held until [`Queue::done`] or [`Queue::retry`]. For one consumer.
    pub async fn next(&self) -> K {
        loop {
            let appointment = {
                let mut state = self.state.lock();
                state.admit_due(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.wanted.remove(&key);
                    state.active.insert(key.clone());
                    return key;
                }
                state.delayed.keys().next().map(|(at, _)| *at)
            };
            match appointment {
                Some(at) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => self.wake.notified().await,
            }
        }
    }

    /// The work went well: failures are forgotten.
    pub fn done(&self, key: &K) {
        let mut state = self.state.lock();
        state.failures.remove(key);
        if state.release(key) {
            self.wake.notify_one();
        }
    }

    /// The work failed: the key comes again after its back-off.
    pub fn retry(&self, key: &K) {
        self.retry_within(key, Duration::MAX);
    }

    /// Somebody else wrote first. Where many write at once that happens many times in a row, and nothing is wrong: the key
    /// comes again soon, however often it was.
    pub fn retry_after_conflict(&self, key: &K) {
        self.retry_within(key, LONGEST_AFTER_CONFLICT);
    }

    fn retry_within(&self, key: &K, longest: Duration) {
        let mut state = self.state.lock();
        let failures = state.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        let at = Instant::now() + self.backoff.after(*failures).min(longest);
        state.release(key);
        state.appoint(key.clone(), at);
        self.wake.notify_one();
    }

    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.ready.is_empty() && state.active.is_empty()
    }
}

impl<K: Hash + Eq + Clone> State<K> {
    /// True if the key became ready.
    fn want(&mut self, key: K) -> bool {
        if !self.wanted.insert(key.clone()) || self.active.contains(&key) {
            return false;
        }
        self.ready.push_back(key);
        true
    }

    /// True if the key is ready again at once.
    fn release(&mut self, key: &K) -> bool {
        self.active.remove(key);
        if self.wanted.contains(key) {
            self.ready.push_back(key.clone());
            return true;
        }
        false
    }

    fn appoint(&mut self, key: K, at: Instant) {
        if let Some(&known) = self.due.get(&key) {
            if known.0 <= at {
                return;
            }
            self.delayed.remove(&known);
        }
        self.sequence += 1;
        self.due.insert(key.clone(), (at, self.sequence));
        self.delayed.insert((at, self.sequence), key);
    }

    fn admit_due(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            self.due.remove(&key);
            self.want(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue<&'static str> {
        Queue::new(Backoff { first: Duration::from_secs(1), most: Duration::from_secs(8) })
    }

    async fn next_within(queue: &Queue<&'static str>, limit: u64) -> Option<&'static str> {
        tokio::time::timeout(Duration::from_secs(limit), queue.next()).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_is_held_by_one_worker() {
        let queue = queue();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert_eq!(next_within(&queue, 60).await, None, "held");
        queue.done(&"a");
        assert_eq!(next_within(&queue, 0).await, Some("a"));
        queue.done(&"a");
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_and_success_resets() {
        let queue = queue();
        queue.add("a");
        for pause in [1, 2, 4, 8, 8] {
            assert_eq!(next_within(&queue, 1).await, Some("a"));
            queue.retry(&"a");
            let start = Instant::now();
            assert_eq!(queue.next().await, "a");
            assert_eq!(start.elapsed().as_secs(), pause);
            queue.add("a");
            queue.state.lock().release(&"a");
        }
        queue.next().await;
        queue.done(&"a");
        queue.add("a");
        queue.next().await;
        queue.retry(&"a");
        let start = Instant::now();
        queue.next().await;
        assert_eq!(start.elapsed().as_secs(), 1);
    }

    /// A thousand claims for a thousand volumes: who is overtaken ten times in a row must not wait for minutes.
    #[tokio::test(start_paused = true)]
    async fn conflicts_never_wait_long() {
        let queue = Queue::new(Backoff::default());
        queue.add("a");
        let mut longest = Duration::ZERO;
        for _ in 0..40 {
            let start = Instant::now();
            assert_eq!(queue.next().await, "a");
            longest = longest.max(start.elapsed());
            queue.retry_after_conflict(&"a");
        }
        assert_eq!(longest, LONGEST_AFTER_CONFLICT);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_appointment_stands() {
        let queue = queue();
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(5));
        queue.add_after("a", Duration::from_secs(20));
        let start = Instant::now();
        queue.next().await;
        assert_eq!(start.elapsed().as_secs(), 5);
        queue.done(&"a");
        assert_eq!(next_within(&queue, 60).await, None);
    }

    #[test]
    fn back_off_is_bounded() {
        let backoff = Backoff::default();
        assert_eq!(backoff.after(1), Duration::from_millis(5));
        assert_eq!(backoff.after(40), Duration::from_secs(300));
        assert_eq!(backoff.after(u32::MAX), Duration::from_secs(300));
    }
}
