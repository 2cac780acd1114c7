//! Pods that wait for a node: those to try now, by priority and age, and those parked until something
//! changes that may help them, not before their back-off is over.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_runtime::{Backoff, Key};

use crate::snapshot::PodInfo;
use crate::waking::Waking;

const BACKOFF: Backoff = Backoff { first: Duration::from_millis(250), most: Duration::from_secs(10) };
/// A safety net: parked pods are tried again after this long even if nothing seems to have changed.
const FLUSH: Duration = Duration::from_secs(300);

#[derive(Default)]
pub struct PodQueue {
    entries: HashMap<Key, Entry>,
    active: BTreeMap<Order, Key>,
    due: BTreeMap<(Instant, u64), Key>,
    sequence: u64,
}

/// Higher priority first, then first come.
type Order = (Reverse<i32>, u64);

struct Entry {
    pod: Arc<PodInfo>,
    attempts: u32,
    /// Its place among equals, kept over retries.
    ticket: u64,
    state: State,
}

enum State {
    Active,
    /// Handed out; comes back by `park`, `retry` or `remove`.
    Taken,
    Parked {
        helped_by: Waking,
        not_before: Instant,
        due: (Instant, u64),
    },
}

impl PodQueue {
    /// A new pod, or a new form of one that waits. A changed pod is tried at once.
    pub fn put(&mut self, pod: Arc<PodInfo>) {
        self.sequence += 1;
        let ticket = self.sequence;
        let key = pod.key.clone();
        let (attempts, ticket) = match self.unlink(&key) {
            Some(old) if old.pod.uid == pod.uid => (old.attempts, old.ticket),
            _ => (0, ticket),
        };
        self.active.insert((Reverse(pod.priority), ticket), key.clone());
        self.entries.insert(key, Entry { pod, attempts, ticket, state: State::Active });
    }

    /// The pod changed in a way that does not matter for its placement.
    pub fn refresh(&mut self, pod: Arc<PodInfo>) {
        if let Some(entry) = self.entries.get_mut(&pod.key) {
            entry.pod = pod;
        }
    }

    pub fn get(&self, key: &Key) -> Option<&Arc<PodInfo>> {
        self.entries.get(key).map(|entry| &entry.pod)
    }

    pub fn remove(&mut self, key: &Key) {
        self.unlink(key);
    }

    pub fn take(&mut self, now: Instant) -> Option<Arc<PodInfo>> {
        self.admit_due(now);
        let (_, key) = self.active.pop_first()?;
        let entry = self.entries.get_mut(&key)?;
        entry.state = State::Taken;
        entry.attempts = entry.attempts.saturating_add(1);
        Some(entry.pod.clone())
    }

    /// A pod that was taken found no node.
    pub fn park(&mut self, key: &Key, helped_by: Waking, now: Instant) {
        self.sequence += 1;
        let sequence = self.sequence;
        let Some(entry) = self.entries.get_mut(key) else { return };
        if !matches!(entry.state, State::Taken) {
            return;
        }
        let due = (now + FLUSH, sequence);
        let not_before = now + BACKOFF.after(entry.attempts);
        entry.state = State::Parked { helped_by, not_before, due };
        self.due.insert(due, key.clone());
    }

    /// A pod that was taken could not be bound for reasons of its own: again after its back-off.
    pub fn retry(&mut self, key: &Key, now: Instant) {
        self.park(key, Waking::ALL, now);
        self.wake_one(key, now);
    }

    /// Something changed: those it may help come back.
    pub fn wake(&mut self, what: Waking, now: Instant) {
        let helped = |key: &&Key| {
            let state = self.entries.get(*key).map(|entry| &entry.state);
            matches!(state, Some(State::Parked { helped_by, .. }) if helped_by.intersects(what))
        };
        let keys: Vec<Key> = self.due.values().filter(helped).cloned().collect();
        for key in keys {
            self.wake_one(&key, now);
        }
    }

    /// What these pods waited for has come, once and for all: those that are parked are tried at once.
    pub fn wake_at_once(&mut self, is_helped: impl Fn(&PodInfo) -> bool) {
        let helped = |key: &&Key| self.entries.get(*key).is_some_and(|entry| is_helped(&entry.pod));
        let keys: Vec<Key> = self.due.values().filter(helped).cloned().collect();
        for key in keys {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let State::Parked { due, .. } = entry.state else { continue };
            self.due.remove(&due);
            entry.state = State::Active;
            entry.attempts = 0;
            self.active.insert((Reverse(entry.pod.priority), entry.ticket), key);
        }
    }

    /// When to look again if nothing happens.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Lets one parked pod come back as soon as its back-off is over.
    pub fn wake_one(&mut self, key: &Key, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let State::Parked { not_before, due, .. } = &mut entry.state else { return };
        self.due.remove(due);
        if *not_before <= now {
            entry.state = State::Active;
            self.active.insert((Reverse(entry.pod.priority), entry.ticket), key.clone());
        } else {
            due.0 = *not_before;
            self.due.insert(*due, key.clone());
        }
    }

    fn admit_due(&mut self, now: Instant) {
        while let Some(first) = self.due.first_entry() {
            if first.key().0 > now {
                return;
            }
            let key = first.remove();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.state = State::Active;
                self.active.insert((Reverse(entry.pod.priority), entry.ticket), key);
            }
        }
    }

    fn unlink(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        match &entry.state {
            State::Active => {
                self.active.remove(&(Reverse(entry.pod.priority), entry.ticket));
            }
            State::Parked { due, .. } => {
                self.due.remove(due);
            }
            State::Taken => {}
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, priority: i32) -> Arc<PodInfo> {
        let pod = json!({"metadata": {"name": name, "uid": name}, "spec": {"containers": [], "priority": priority}});
        PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap()))
    }

    fn taken(queue: &mut PodQueue, now: Instant) -> Option<String> {
        queue.take(now).map(|pod| pod.key.name.clone())
    }

    #[test]
    fn priority_then_age() {
        let mut queue = PodQueue::default();
        for (name, priority) in [("a", 0), ("b", 10), ("c", 10)] {
            queue.put(pod(name, priority));
        }
        let now = Instant::now();
        let order: Vec<_> = std::iter::from_fn(|| taken(&mut queue, now)).collect();
        assert_eq!(order, ["b", "c", "a"]);
    }

    #[test]
    fn only_helpful_changes_wake_and_not_before_the_back_off() {
        let mut queue = PodQueue::default();
        queue.put(pod("a", 0));
        let now = Instant::now();
        taken(&mut queue, now);
        let key = Key::new("", "a");
        queue.park(&key, Waking::NODE, now);
        queue.wake(Waking::POD_GONE, now + Duration::from_secs(1));
        assert_eq!(taken(&mut queue, now + Duration::from_secs(1)), None);
        queue.wake(Waking::NODE, now);
        assert_eq!(taken(&mut queue, now), None);
        assert_eq!(queue.next_due(), Some(now + Duration::from_millis(250)));
        assert_eq!(taken(&mut queue, now + Duration::from_millis(250)).as_deref(), Some("a"));
        queue.park(&key, Waking::NODE, now);
        assert_eq!(taken(&mut queue, now + FLUSH).as_deref(), Some("a"), "safety net");
        queue.remove(&key);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn pod_whose_wait_is_over_is_tried_before_its_back_off_is() {
        let mut queue = PodQueue::default();
        let now = Instant::now();
        for name in ["a", "b"] {
            queue.put(pod(name, 0));
            taken(&mut queue, now);
            queue.park(&Key::new("", name), Waking::VOLUME, now);
        }
        queue.wake_at_once(|pod| pod.key.name == "b");
        assert_eq!(taken(&mut queue, now).as_deref(), Some("b"));
        assert_eq!(taken(&mut queue, now), None);
        // One that is not parked is left alone.
        queue.wake_at_once(|_| true);
        assert_eq!(taken(&mut queue, now).as_deref(), Some("a"));
        assert_eq!(taken(&mut queue, now), None);
    }
}
