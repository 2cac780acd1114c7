//! Finds lines in the logs of a node, of pods that are there and of those that are gone, where they lie: what does not
//! match never leaves the machine.
//!
//! A search is bounded in time, in lines and in bytes, and there is one at a time: whoever searches cannot starve the
//! pods. Who may search was decided by the API server, which alone can ask.

mod find;
mod matcher;
mod newest;
mod scan;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use minik8s_meta::LabelSelector;
use serde::{Serialize, Serializer};
use tokio::sync::Semaphore;

pub use find::{Log, Place, logs};
pub use matcher::Matcher;
use newest::Newest;
use scan::Scan;

/// A search ends after this time, with what it has found.
const LONGEST: Duration = Duration::from_secs(15);
/// More threads would take from pods what they were promised.
const MOST_THREADS: usize = 4;
pub const MOST_LINES: usize = 10_000;

/// One search at a time.
pub static SEARCHES: Semaphore = Semaphore::const_new(1);

/// What is looked for.
#[derive(Debug, Default)]
pub struct Search {
    /// Empty for all.
    pub namespace: String,
    pub pod: Option<String>,
    pub container: Option<String>,
    pub labels: LabelSelector,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Also logs of pods that are gone.
    pub ended: bool,
    pub matcher: Matcher,
    /// The newest so many lines.
    pub limit: usize,
}

/// A line that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundLine {
    pub time: Timestamp,
    #[serde(flatten, serialize_with = "shared")]
    pub place: Arc<Place>,
    pub stream: &'static str,
    pub text: String,
}

fn shared<S: Serializer>(place: &Arc<Place>, serializer: S) -> Result<S::Ok, S::Error> {
    place.as_ref().serialize(serializer)
}

#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// By time.
    pub lines: Vec<FoundLine>,
    /// There are more lines, or not all logs were read in time.
    pub truncated: bool,
    /// How much was read.
    pub bytes: u64,
}

/// Reads all logs that the search is about. Blocks.
pub fn run(search: &Search, logs: &[Log]) -> Findings {
    let next = AtomicUsize::new(0);
    let deadline = Instant::now() + LONGEST;
    let work = || {
        let mut scan = Scan::new(search, deadline);
        while let Some(log) = logs.get(next.fetch_add(1, Ordering::Relaxed)) {
            scan.read(log);
        }
        scan
    };
    let files = logs.len().max(1);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS).min(files);
    let scans: Vec<Scan<'_>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let first = work();
        others.into_iter().filter_map(|other| other.join().ok()).chain([first]).collect()
    });
    let mut all = Newest::new(search.limit);
    let (mut truncated, mut bytes) = (false, 0);
    for scan in scans {
        (truncated, bytes) = (truncated || scan.is_late, bytes + scan.bytes);
        all.merge(scan.found);
    }
    let (lines, dropped) = all.finish();
    Findings { lines, truncated: truncated || dropped, bytes }
}

/// Whether a file can hold nothing of what is wanted, by when it was written last.
fn is_too_old(path: &Path, since: Option<Timestamp>) -> bool {
    let Some(since) = since else { return false };
    let written = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    written.and_then(|time| Timestamp::try_from(time).ok()).is_some_and(|time| time < since)
}

#[cfg(test)]
mod tests;
