//! Back-off between restarts of a container: at once, then after 10 s, 20 s, 40 s … 5 minutes.
//!
//! The delay that applies after an incarnation is written on the container when it is created. So it
//! survives the agent, and needs no memory.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use minik8s_meta::Backoff;

use crate::cri::{ContainerRecord, ContainerState};

const BACKOFF: Backoff = Backoff::millis(10_000, 300_000);
/// A container that ran this long starts afresh.
const FORGIVEN_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// The earliest time for the next start of a container that ended.
pub fn not_before(ended: &ContainerRecord) -> Timestamp {
    match ended.state {
        ContainerState::Exited { finished, .. } => finished.checked_add(delay(ended)).unwrap_or(finished),
        _ => Timestamp::MIN,
    }
}

/// The delay after the incarnation that follows this one.
pub fn next_delay(ended: &ContainerRecord) -> Duration {
    BACKOFF.following(delay(ended))
}

/// The delay after this incarnation.
pub fn delay(ended: &ContainerRecord) -> Duration {
    match ended.state {
        ContainerState::Exited { started: Some(started), finished, .. }
            if finished.duration_since(started) >= FORGIVEN_AFTER =>
        {
            Duration::ZERO
        }
        _ => ended.restart_delay.min(BACKOFF.most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(delay: u64, ran: i64) -> ContainerRecord {
        let started = Timestamp::from_second(1_000).unwrap();
        ContainerRecord {
            id: "c".into(),
            sandbox_id: "s".into(),
            name: "main".into(),
            attempt: 0,
            state: ContainerState::Exited {
                started: Some(started),
                finished: started + SignedDuration::from_secs(ran),
                code: 1,
                reason: "Error".into(),
                message: String::new(),
            },
            image: String::new(),
            image_id: String::new(),
            hash: String::new(),
            restart_delay: Duration::from_secs(delay),
            log_path: String::new(),
            termination_message: String::new(),
            resources: String::new(),
        }
    }

    #[test]
    fn delays_double_up_to_five_minutes() {
        let check = |delay: u64, ran: i64, waits: i64, next: u64| {
            let container = ended(delay, ran);
            assert_eq!(not_before(&container).as_second(), 1_000 + ran + waits, "{delay} {ran}");
            assert_eq!(next_delay(&container), Duration::from_secs(next), "{delay} {ran}");
        };
        check(0, 1, 0, 10);
        check(10, 1, 10, 20);
        check(160, 1, 160, 300);
        check(300, 1, 300, 300);
        check(u64::MAX, 1, 300, 300);
        check(300, 600, 0, 10);
    }
}
