//! How long to wait before what failed is tried again: the one way in which every part does so.
//!
//! It never sleeps and never looks at a clock; who waits does.

use std::time::Duration;

/// Doubles from `first` to `most`.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub first: Duration,
    pub most: Duration,
}

impl Backoff {
    pub const fn millis(first: u64, most: u64) -> Self {
        Backoff { first: Duration::from_millis(first), most: Duration::from_millis(most) }
    }

    /// The pause after the given number of failures in a row (from 1).
    pub fn after(&self, failures: u32) -> Duration {
        let factor = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.checked_mul(factor).unwrap_or(self.most).min(self.most)
    }

    /// The pause after one that was this long, for those who keep no count; the first one follows none.
    pub fn following(&self, pause: Duration) -> Duration {
        match pause {
            Duration::ZERO => self.first,
            pause => pause.saturating_mul(2).min(self.most),
        }
    }

    pub fn retries(self) -> Retries {
        Retries { backoff: self, failures: 0 }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { first: Duration::from_millis(5), most: Duration::from_secs(300) }
    }
}

/// Failures in a row, counted.
#[derive(Debug, Clone)]
pub struct Retries {
    backoff: Backoff,
    failures: u32,
}

impl Retries {
    /// Another failure: how long to wait now.
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.backoff.after(self.failures)
    }

    /// It went well.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Whether the last try failed, and those before it did not.
    pub fn is_first(&self) -> bool {
        self.failures == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_bound_and_starts_anew_after_success() {
        let mut retries = Backoff::millis(100, 350).retries();
        let pauses = [retries.failed(), retries.failed(), retries.failed(), retries.failed()];
        assert_eq!(pauses.map(|pause| pause.as_millis()), [100, 200, 350, 350]);
        assert!(!retries.is_first());
        retries.succeeded();
        assert_eq!((retries.failed().as_millis(), retries.is_first()), (100, true));
    }

    #[test]
    fn backoff_without_a_count_goes_on_from_the_last_pause() {
        let backoff = Backoff::millis(100, 350);
        let follows = |millis: u64| backoff.following(Duration::from_millis(millis)).as_millis();
        assert_eq!([0, 100, 200, 350, 9000].map(follows), [100, 200, 350, 350, 350]);
        assert_eq!(backoff.following(Duration::MAX), backoff.most);
    }
}
