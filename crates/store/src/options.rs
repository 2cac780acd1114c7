//! How much a store keeps. The defaults suit every cluster; tests set less, to reach the limits soon.

use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Options {
    /// History younger than this can be read and watched, unless there is too much of it.
    pub history: Duration,
    /// History beyond this many bytes of values is forgotten early, so that the disk stays bounded.
    pub history_bytes: u64,
    /// The newest events kept in memory, for watches that start a little behind.
    pub window_events: usize,
    /// What the values of those events may take. Newest values are shared with the store itself.
    pub window_bytes: usize,
    /// A watcher with more undelivered events than this is cut off.
    pub watch_queue: usize,
    /// So is one whose undelivered events hold more than this many bytes.
    pub watch_queue_bytes: usize,
    /// A quiet watch hears about the store's progress at most this often.
    pub progress: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            history: Duration::from_secs(5 * 60),
            history_bytes: 256 << 20,
            window_events: 8192,
            window_bytes: 8 << 20,
            watch_queue: 8192,
            watch_queue_bytes: 32 << 20,
            progress: Duration::from_secs(5),
        }
    }
}
