//! The newest events, kept in memory: a watch or a read that starts a little behind needs no disk.
//!
//! Bounded by number and by bytes. It holds whole revisions only: what is there of a revision is all of it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Event, Options, Revision};

pub(crate) struct Window {
    events: VecDeque<Arc<Event>>,
    /// Every event after this revision is here.
    start: Revision,
    /// The newest revision, with or without events.
    end: Revision,
    bytes: usize,
    max_events: usize,
    max_bytes: usize,
}

impl Window {
    pub(super) fn new(revision: Revision, options: &Options) -> Self {
        Window {
            events: VecDeque::new(),
            start: revision,
            end: revision,
            bytes: 0,
            max_events: options.window_events,
            max_bytes: options.window_bytes,
        }
    }

    pub(crate) fn end(&self) -> Revision {
        self.end
    }

    /// All events after `revision`, or None if some of them are gone.
    pub(crate) fn after(&self, revision: Revision) -> Option<impl Iterator<Item = &Arc<Event>>> {
        let first = self.events.partition_point(|event| event.revision <= revision);
        (revision >= self.start).then(|| self.events.range(first..))
    }

    pub(super) fn push(&mut self, events: &[Arc<Event>], revision: Revision) {
        for event in events {
            self.bytes += size(event);
            self.events.push_back(event.clone());
        }
        self.end = revision;
        while self.events.len() > self.max_events || self.bytes > self.max_bytes {
            self.forget_oldest_revision();
        }
    }

    /// Forgets all: history goes on after `revision`.
    pub(super) fn restart(&mut self, revision: Revision) {
        self.events.clear();
        self.bytes = 0;
        self.start = revision;
        self.end = revision;
    }

    fn forget_oldest_revision(&mut self) {
        if let Some(oldest) = self.events.front() {
            self.start = oldest.revision;
        }
        while let Some(event) = self.events.pop_front_if(|event| event.revision <= self.start) {
            self.bytes -= size(&event);
        }
    }
}

/// What an event keeps in memory.
fn size(event: &Event) -> usize {
    size_of::<Event>() + event.key.len() + event.value_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Change;

    fn event(revision: Revision, size: usize) -> Arc<Event> {
        Arc::new(Event {
            revision,
            key: "k".into(),
            change: Change::Put(vec![0; size].into()),
            previous: None,
        })
    }

    fn check(
        limits: (usize, usize),
        pushed: &[(Revision, usize)],
        after: Revision,
        expected: Option<&[Revision]>,
    ) {
        let options = Options { window_events: limits.0, window_bytes: limits.1, ..Options::default() };
        let mut window = Window::new(10, &options);
        for &(revision, size) in pushed {
            window.push(&[event(revision, size)], revision);
        }
        let found = window.after(after).map(|events| events.map(|event| event.revision).collect::<Vec<_>>());
        assert_eq!(found.as_deref(), expected, "{pushed:?} after {after}");
    }

    #[test]
    fn keeps_the_newest_revisions_whole() {
        let three = [(11, 1), (12, 1), (13, 1)];
        check((9, 9999), &[], 10, Some(&[]));
        check((9, 9999), &[], 9, None);
        check((9, 9999), &three, 10, Some(&[11, 12, 13]));
        check((9, 9999), &three, 12, Some(&[13]));
        check((9, 9999), &three, 13, Some(&[]));
        check((2, 9999), &three, 10, None);
        check((2, 9999), &three, 11, Some(&[12, 13]));
        check((2, 9999), &[(11, 1), (11, 1), (12, 1)], 10, None);
        check((2, 9999), &[(11, 1), (11, 1), (12, 1)], 11, Some(&[12]));
        check((9, 5000), &[(11, 3000), (12, 3000)], 11, Some(&[12]));
        check((9, 5000), &[(11, 9000)], 11, Some(&[]));
    }
}
