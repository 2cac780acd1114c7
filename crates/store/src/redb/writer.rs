//! The thread that writes. It takes all commits that wait, decides them, makes them durable with one fsync,
//! shows them to readers, answers the callers and then tells the watchers. While it waits for the disk, the
//! next group gathers in the inbox: it never waits for more commits to come.
//!
//! Housekeeping happens here too, since only this thread writes: a little compaction rides along with every
//! write, and when nothing else is to be done it goes on alone. An idle store does not wake up at all.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Shared;
use super::batch::{Batch, Planned};
use super::disk::Write;
use super::inbox::{Request, Work};
use crate::retention::Retention;
use crate::{Error, Options, Outcome, Result, Revision};

/// Compaction goes on alone when no commit has come for this long.
const QUIET: Duration = Duration::from_millis(100);
const QUIET_AFTER_FAILURE: Duration = Duration::from_secs(5);
/// Changes purged with a write: some, and a multiple of what it adds, so that purging always catches up.
const PURGE_ROWS: usize = 128;
const PURGE_FACTOR: usize = 2;
/// Changes purged at once when there is nothing else to do.
const PURGE_ROWS_QUIET: usize = 1024;

pub(super) fn spawn(shared: Arc<Shared>, options: Options, history_bytes: u64) -> Result<JoinHandle<()>> {
    let writer = Writer::new(shared, &options, history_bytes);
    let thread = std::thread::Builder::new().name("store-writer".into());
    thread.spawn(move || writer.run()).map_err(|error| Error::Open(format!("starting its writer: {error}")))
}

struct Writer {
    shared: Arc<Shared>,
    retention: Retention,
    progress: Duration,
    /// When quiet watchers were last told of progress.
    told: Instant,
    /// What the next write compacts to.
    compact_to: Revision,
    /// There may be something to compact or to purge.
    to_compact: bool,
    /// How long no commit must have come before compaction goes on alone.
    quiet: Duration,
}

/// A group of requests, decided.
struct Group {
    planned: Planned,
    commits: Vec<(oneshot::Sender<Result<Outcome>>, Outcome)>,
    compactions: Vec<oneshot::Sender<Result<()>>>,
}

impl Writer {
    fn new(shared: Arc<Shared>, options: &Options, history_bytes: u64) -> Writer {
        let now = Instant::now();
        let (compacted, revision) = {
            let newest = shared.newest.read();
            (newest.compacted(), newest.revision())
        };
        Writer {
            retention: Retention::new(options, now, compacted, revision, history_bytes),
            progress: options.progress,
            told: now,
            compact_to: compacted,
            to_compact: true,
            quiet: QUIET,
            shared,
        }
    }

    fn run(mut self) {
        loop {
            match self.shared.inbox.take(self.next_housekeeping()) {
                Work::Group(requests) => {
                    // A failure is told to those who asked.
                    let _ = self.write(requests, PURGE_ROWS);
                }
                Work::Idle => self.compact_alone(),
                Work::Closed => break,
            }
            self.look_around();
        }
    }

    /// None when there is nothing to wait for but commits.
    fn next_housekeeping(&self) -> Option<Instant> {
        let purge = self.to_compact.then(|| Instant::now() + self.quiet);
        let tell = self.shared.hub.has_news().then(|| self.told + self.progress);
        let forget = self.retention.due(self.compact_to);
        [purge, tell, forget].into_iter().flatten().min()
    }

    fn compact_alone(&mut self) {
        if self.to_compact {
            let written = self.write(Vec::new(), PURGE_ROWS_QUIET);
            self.quiet = if written.is_ok() { QUIET } else { QUIET_AFTER_FAILURE };
        }
    }

    fn look_around(&mut self) {
        let now = Instant::now();
        if let Some(revision) = self.retention.take_compactable(now) {
            self.compact(revision);
        }
        if now >= self.told + self.progress && self.shared.hub.has_news() {
            self.shared.hub.tell_quiet_watchers();
            self.told = now;
        }
    }

    fn compact(&mut self, revision: Revision) {
        if revision > self.compact_to {
            self.compact_to = revision;
            self.to_compact = true;
        }
    }

    fn write(&mut self, requests: Vec<Request>, purge: usize) -> Result<()> {
        let Group { planned, commits, compactions } = self.decide(requests);
        let purge = purge + PURGE_FACTOR * planned.events.len();
        let written = self.make_durable(&planned, purge);
        let is_news = written.is_ok() && !planned.events.is_empty();
        if is_news {
            self.show(&planned);
        }
        for (reply, outcome) in commits {
            // A caller that has gone does not want its answer.
            let _ = reply.send(written.clone().map(|()| outcome));
        }
        for reply in compactions {
            let _ = reply.send(written.clone());
        }
        if is_news {
            self.shared.hub.dispatch(&planned.events, planned.revision);
        }
        written
    }

    fn decide(&mut self, requests: Vec<Request>) -> Group {
        let newest = self.shared.newest.read();
        let mut batch = Batch::new(&newest);
        let mut commits = Vec::with_capacity(requests.len());
        let mut compactions = Vec::new();
        let mut compact_to = 0;
        for request in requests {
            if request.is_abandoned() {
                continue;
            }
            match request {
                Request::Commit(commit, reply) => commits.push((reply, batch.add(commit))),
                Request::Compact(revision, reply) => {
                    compact_to = compact_to.max(revision);
                    compactions.push(reply);
                }
            }
        }
        let planned = batch.finish();
        drop(newest);
        self.compact(compact_to);
        Group { planned, commits, compactions }
    }

    fn make_durable(&mut self, planned: &Planned, purge: usize) -> Result<()> {
        if planned.events.is_empty() && !self.to_compact {
            return Ok(());
        }
        let base = {
            // Known before it is done: a read that comes in between must not find half of it.
            let mut newest = self.shared.newest.write();
            newest.compact(self.compact_to);
            newest.revision()
        };
        let (events, revision) = (&planned.events[..], planned.revision);
        self.to_compact =
            self.shared.disk.write(&Write { base, events, revision, compacted: self.compact_to, purge })?;
        Ok(())
    }

    /// Lets readers see what is durable now.
    fn show(&mut self, planned: &Planned) {
        let mut newest = self.shared.newest.write();
        newest.apply(&planned.events, planned.revision);
        self.shared.hub.publish(&planned.events, planned.revision);
        drop(newest);
        let bytes = planned.events.iter().map(|event| event.value_bytes() as u64).sum();
        self.retention.record(Instant::now(), planned.revision, bytes);
    }
}

impl Drop for Writer {
    /// Also when it panicked: nobody may wait for it, and the file must be let go.
    fn drop(&mut self) {
        self.shared.inbox.abandon();
        self.shared.hub.close();
        self.shared.disk.close();
        self.shared.ended.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::super::RedbStore;
    use super::*;
    use crate::{Commit, Store};

    #[tokio::test]
    async fn store_ends_with_its_writer() {
        let scratch = tempfile::tempdir().unwrap();
        let store = RedbStore::open(scratch.path().join("store"), Options::default()).unwrap();
        let ended = async |limit| tokio::time::timeout(limit, store.ended()).await.is_ok();
        assert!(!ended(Duration::from_millis(50)).await, "nothing is wrong");
        let writer = Writer::new(store.shared.clone(), &Options::default(), 0);
        let panicked = std::thread::spawn(move || {
            let _writer = writer;
            std::panic::resume_unwind(Box::new("a fault in the writer"));
        });
        assert!(panicked.join().is_err());
        assert!(ended(Duration::from_secs(10)).await);
        assert!(store.commit(Commit::default()).await.is_err(), "nobody waits for it");
    }
}
