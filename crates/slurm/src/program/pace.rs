//! How long to wait between looks: short while things change, longer and longer while they do not, so that a thousand
//! queued jobs do not keep a login node busy.

use std::time::Duration;

/// After a change another is likely.
const AFTER_CHANGE: Duration = Duration::from_millis(200);
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// After so many looks that showed nothing new.
pub fn pause(looks: u32) -> Duration {
    if looks == 0 {
        return AFTER_CHANGE;
    }
    // 0.5 s three times, then half as much again each time.
    let grown =
        FIRST.as_secs_f64() * 1.5_f64.powi(i32::try_from(looks.saturating_sub(3).min(20)).unwrap_or(0));
    Duration::from_secs_f64(grown).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute() {
        assert_eq!(pause(0), AFTER_CHANGE);
        assert_eq!(pause(3), FIRST);
        assert!(pause(8) > Duration::from_secs(2) && pause(8) < Duration::from_secs(6));
        assert_eq!(pause(30), LONGEST);
        assert_eq!(pause(u32::MAX), LONGEST);
        assert!((0..40).all(|n| pause(n) <= pause(n + 1)));
    }
}
