//! When history is old enough, or too much, and may be forgotten. Pure: time comes from outside.
//!
//! Ages are known by samples: at this time the store was at that revision, after so many bytes. A few dozen
//! samples are enough, since nobody minds if history is kept a little longer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::{Options, Revision};

const SAMPLES: u32 = 64;

pub(crate) struct Retention {
    keep: Duration,
    keep_bytes: u64,
    samples: VecDeque<Sample>,
    /// The newest state; becomes a sample when it differs enough from the last one.
    latest: Sample,
    /// What was last returned as compactable.
    taken: Revision,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    revision: Revision,
    written: u64,
}

impl Retention {
    /// History found at the start has no known age: it counts as made now.
    pub(crate) fn new(
        options: &Options,
        now: Instant,
        compacted: Revision,
        revision: Revision,
        bytes: u64,
    ) -> Self {
        Retention {
            keep: options.history,
            keep_bytes: options.history_bytes,
            samples: VecDeque::from([Sample { at: now, revision: compacted, written: 0 }]),
            latest: Sample { at: now, revision, written: bytes },
            taken: compacted,
        }
    }

    /// The store is now at `revision`, after `bytes` more of values.
    pub(crate) fn record(&mut self, now: Instant, revision: Revision, bytes: u64) {
        let apart = self.samples.back().is_none_or(|last| {
            self.latest.at - last.at >= self.keep / SAMPLES
                || self.latest.written - last.written >= self.keep_bytes / u64::from(SAMPLES)
        });
        if apart {
            self.samples.push_back(self.latest);
        }
        self.latest = Sample { at: now, revision, written: self.latest.written + bytes };
    }

    /// The revision up to which history may go now; each is returned once.
    pub(crate) fn take_compactable(&mut self, now: Instant) -> Option<Revision> {
        let mut compactable = None;
        while let Some(sample) = self.samples.pop_front_if(|sample| {
            now - sample.at >= self.keep || self.latest.written - sample.written > self.keep_bytes
        }) {
            compactable = Some(sample.revision);
        }
        if self.samples.is_empty() && now - self.latest.at >= self.keep {
            compactable = Some(self.latest.revision);
        }
        let revision = compactable.filter(|revision| *revision > self.taken)?;
        self.taken = revision;
        Some(revision)
    }

    /// When to look again, if nothing happens until then.
    pub(crate) fn due(&self, compacted: Revision) -> Option<Instant> {
        let next = self.samples.iter().chain([&self.latest]).find(|sample| sample.revision > compacted);
        next.map(|sample| sample.at + self.keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options { history: Duration::from_secs(64), history_bytes: 6400, ..Options::default() }
    }

    /// After writing one revision of `bytes` each second for `seconds`, what may go `later`?
    fn check(seconds: u64, bytes: u64, later: u64, expected: Option<Revision>) {
        let start = Instant::now();
        let mut retention = Retention::new(&options(), start, 0, 0, 0);
        for second in 1..=seconds {
            retention.record(start + Duration::from_secs(second), second, bytes);
        }
        let now = start + Duration::from_secs(seconds + later);
        assert_eq!(
            retention.take_compactable(now),
            expected,
            "{seconds} s of {bytes} bytes, {later} s later"
        );
        assert_eq!(retention.take_compactable(now), None, "only once");
    }

    #[test]
    fn forgets_by_age_and_by_size() {
        check(10, 1, 0, None);
        check(10, 1, 63, Some(9));
        check(10, 1, 64, Some(10));
        check(100, 1, 0, Some(36));
        check(10, 3200, 0, Some(7));
        check(10, 99_999, 0, Some(9));
    }

    #[test]
    fn is_due_only_while_there_is_history() {
        let start = Instant::now();
        let mut retention = Retention::new(&options(), start, 0, 0, 0);
        assert_eq!(retention.due(0), None);
        retention.record(start, 1, 1);
        assert_eq!(retention.due(0), Some(start + Duration::from_secs(64)));
        assert_eq!(retention.due(1), None);
    }
}
