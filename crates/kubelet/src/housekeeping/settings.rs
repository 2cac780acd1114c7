//! When the node cleans up after itself, and when it ends pods for want of room.

use std::time::Duration;

use jiff::SignedDuration;

use crate::ended_logs::LogRetention;
use crate::pressure::Thresholds;

/// The defaults are upstream's.
#[derive(Debug, Clone, PartialEq)]
pub struct HousekeepingSettings {
    /// How often resources and logs are looked at.
    pub interval: Duration,
    pub eviction: Thresholds,
    /// How long a shortage stays a condition of the node after it has passed.
    pub pressure_transition: SignedDuration,
    pub images: ImageSettings,
    pub logs: LogSettings,
}

/// Percentages of the disk: above `high` in use, images that no container uses go until it is `low`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSettings {
    pub high: u8,
    pub low: u8,
    /// A pod that wants a new image may be on its way.
    pub youngest: SignedDuration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    pub largest: u64,
    /// The one being written among them.
    pub files: usize,
    /// Of pods that are gone; None keeps none.
    pub retention: Option<LogRetention>,
}

impl Default for HousekeepingSettings {
    fn default() -> Self {
        HousekeepingSettings {
            interval: Duration::from_secs(10),
            eviction: Thresholds::default(),
            pressure_transition: SignedDuration::from_mins(5),
            images: ImageSettings { high: 85, low: 80, youngest: SignedDuration::from_mins(2) },
            logs: LogSettings { largest: 10 << 20, files: 5, retention: None },
        }
    }
}
