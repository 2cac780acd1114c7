//! The embedded engine: one redb file, and everything newest in memory.
//!
//! Reads of the newest revision, and of any the window reaches back to, never touch the disk. The disk is
//! for surviving, for older history, and for nothing else. All writing is done by one thread, see
//! [`writer`]; memory changes only after the disk has the change for good, so nobody ever reads, watches or
//! is told something that a power cut could take back. The price is that all newest values are held in
//! memory: tens of megabytes for a cluster of ten thousand pods.

mod batch;
mod disk;
mod inbox;
mod newest;
mod past;
mod replay;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, watch};

use self::disk::Disk;
use self::inbox::Inbox;
use self::newest::Newest;
use crate::watch::{Attach, Hub};
use crate::{
    Commit, Contents, Entry, Error, Moment, Op, Options, Outcome, Page, Range, Result, Revision, Store, Watch,
};

/// Reads of old history that may wait for the disk at the same time; more queue up without holding a thread.
const DISK_READERS: usize = 4;

pub struct RedbStore {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// What the writer, the readers and the replays work on.
struct Shared {
    newest: RwLock<Newest>,
    hub: Arc<Hub>,
    disk: Disk,
    inbox: Inbox,
    disk_readers: Semaphore,
    /// The writer is gone.
    ended: watch::Sender<bool>,
}

impl RedbStore {
    /// Opens or creates the file at `path`. Reads all newest values, so call it before serving anything;
    /// it blocks.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Arc<Self>> {
        RedbStore::start(Disk::open(path.as_ref())?, options)
    }

    /// Makes a new file with these contents; later revisions are above theirs. Refuses a file that has any
    /// unless `replace`. It blocks, and no server may use the file meanwhile.
    pub fn fill(path: impl AsRef<Path>, contents: &Contents, replace: bool) -> Result<()> {
        let path = path.as_ref();
        if path.exists() {
            // Opened in any case: a file in use must not be replaced.
            let disk = Disk::open(path)?;
            let has_any = !disk.load()?.newest.is_empty();
            disk.close();
            if has_any && !replace {
                return Err(Error::NotEmpty(path.display().to_string()));
            }
        }
        Disk::fill(path, contents)
    }

    fn start(disk: Disk, options: Options) -> Result<Arc<Self>> {
        let loaded = disk.load()?;
        disk.shrink_if_wasteful(loaded.newest.bytes() + loaded.history_bytes)?;
        let revision = loaded.newest.revision();
        let shared = Arc::new(Shared {
            newest: RwLock::new(loaded.newest),
            hub: Hub::new(revision, &options),
            disk,
            inbox: Inbox::default(),
            disk_readers: Semaphore::new(DISK_READERS),
            ended: watch::Sender::new(false),
        });
        let writer = writer::spawn(shared.clone(), options, loaded.history_bytes)?;
        Ok(Arc::new(RedbStore { shared, writer: Mutex::new(Some(writer)) }))
    }

    /// Finishes the commits under way, ends all watches and lets go of the file. Dropping the store does
    /// the same.
    pub async fn close(self: Arc<Self>) {
        // Joining a thread blocks, so it is done where blocking is allowed; it cannot fail but by a panic,
        // which has been reported where it happened.
        let _ = tokio::task::spawn_blocking(move || self.stop()).await;
    }

    fn stop(&self) {
        self.shared.inbox.close();
        if let Some(writer) = self.writer.lock().take() {
            let _ = writer.join();
        }
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        self.stop();
    }
}

#[async_trait]
impl Store for RedbStore {
    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        Ok(self.shared.newest.read().get(key))
    }

    async fn range(&self, range: Range) -> Result<Page> {
        let Some(revision) = range.revision else {
            return Ok(self.shared.newest.read().page(&range));
        };
        match past::page_from_memory(&self.shared, &range, revision)? {
            Some(page) => Ok(page),
            None => self.shared.read_disk(move |shared| past::page_from_disk(shared, &range, revision)).await,
        }
    }

    async fn commit(&self, mut commit: Commit) -> Result<Outcome> {
        for op in &mut commit.ops {
            if let Op::Put { value, .. } = op {
                // The value stays in memory; the buffer it was cut from must not.
                *value = Bytes::copy_from_slice(value);
            }
        }
        self.shared.inbox.commit(commit).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch> {
        self.shared.check(after)?;
        let watch = self.shared.hub.subscribe(prefix);
        if let Attach::Behind(reached) = self.shared.hub.attach(watch.queue(), after) {
            tokio::spawn(replay::run(self.shared.clone(), watch.queue().clone(), reached));
        }
        Ok(watch)
    }

    async fn revision(&self) -> Result<Revision> {
        Ok(self.shared.newest.read().revision())
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.shared.check(revision)?;
        self.shared.inbox.compact(revision).await
    }

    fn moments(&self) -> Vec<Moment> {
        let compacted = self.shared.newest.read().compacted();
        self.shared.hub.moments(compacted)
    }

    async fn ended(&self) {
        // It fails only when the sender is gone, which is here.
        let _ = self.shared.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

impl Shared {
    /// Whether history after `revision` is there.
    fn check(&self, revision: Revision) -> Result<()> {
        self.newest.read().check(revision)
    }

    /// Runs a blocking read of the disk on a thread for it.
    async fn read_disk<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let _permit = self.disk_readers.acquire().await.map_err(|_| Error::Closed)?;
        let shared = self.clone();
        let reading = tokio::task::spawn_blocking(move || read(&shared));
        reading.await.map_err(|error| Error::Engine(format!("reading history: {error}")))?
    }
}
