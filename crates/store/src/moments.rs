//! When the store was at which revision, as far back as history reaches: so that who knows a time finds the revision to
//! read at. A sample now and then, made by commits alone: a quiet store does nothing. It is not kept over a restart.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::{Options, Revision};

/// About so many are kept.
const SAMPLES: u32 = 1000;

/// At this time the store got to that revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub at: SystemTime,
    pub revision: Revision,
}

pub(crate) struct Moments {
    keep: Duration,
    samples: Mutex<VecDeque<Moment>>,
}

impl Moments {
    pub(crate) fn new(options: &Options, revision: Revision, now: SystemTime) -> Self {
        let first = Moment { at: now, revision };
        Moments { keep: options.history, samples: Mutex::new(VecDeque::from([first])) }
    }

    /// The store is at `revision` now.
    pub(crate) fn record(&self, revision: Revision, now: SystemTime) {
        let moment = Moment { at: now, revision };
        let apart = |a: SystemTime, b: SystemTime| a.duration_since(b).unwrap_or_default();
        let mut samples = self.samples.lock();
        // The newest is always there. It makes room for the next if that comes soon after the one before it: what lasted
        // longer is never forgotten.
        if let Some(before) = samples.iter().rev().nth(1)
            && apart(now, before.at) <= self.keep / SAMPLES
        {
            samples.pop_back();
        }
        samples.push_back(moment);
        while samples.len() > 1 && samples.front().is_some_and(|first| apart(now, first.at) > self.keep) {
            samples.pop_front();
        }
    }

    /// Those that can be read at, the oldest first.
    pub(crate) fn since(&self, compacted: Revision) -> Vec<Moment> {
        self.samples.lock().iter().filter(|moment| moment.revision >= compacted).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_reach_back_and_are_few() {
        let options = Options { history: Duration::from_secs(1000), ..Options::default() };
        let start = SystemTime::UNIX_EPOCH;
        let moments = Moments::new(&options, 0, start);
        for tenth in 1..=50_000u64 {
            moments.record(tenth, start + Duration::from_millis(tenth * 100));
        }
        let found = moments.since(0);
        assert!((500..=1100).contains(&found.len()), "{}", found.len());
        assert_eq!(found.last().map(|last| last.revision), Some(50_000));
        let reach = found[found.len() - 1].at.duration_since(found[0].at).unwrap();
        assert!(reach > Duration::from_secs(990) && reach <= Duration::from_secs(1000), "{reach:?}");
        assert!(found.windows(2).all(|pair| pair[0].at < pair[1].at && pair[0].revision < pair[1].revision));
        assert!(moments.since(49_000).iter().all(|moment| moment.revision >= 49_000));
    }
}
