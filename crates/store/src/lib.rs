//! A durable, versioned key-value store with watches: what the API server stands on.
//!
//! Every commit gets the next [`Revision`]. Reads may ask for an older revision until it is compacted;
//! watches deliver every change after a revision, in order, without gaps, or end with an error. Engines:
//! redb (embedded, one file) and etcd. The store knows nothing of Kubernetes: keys are strings, values bytes.

pub mod backup;
mod contents;
mod error;
mod etcd;
mod moments;
mod options;
mod redb;
mod retention;
mod types;
mod watch;

pub use contents::Contents;
pub use error::{Error, Result};
pub use etcd::{EtcdAddress, EtcdStore};
pub use moments::Moment;
pub use options::Options;
pub use redb::RedbStore;
pub use types::{
    Change, Commit, Condition, Conflict, Entry, Event, Op, Outcome, Page, Range, Revision, WatchItem,
};
pub use watch::{Opener, Watch};

use std::sync::Arc;

use async_trait::async_trait;

/// What every engine does. All methods may be called from any task at any time.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The newest entry of one key.
    async fn get(&self, key: &str) -> Result<Option<Entry>>;

    /// Entries in key order, on one consistent snapshot.
    async fn range(&self, range: Range) -> Result<Page>;

    /// Applies all operations atomically at one new revision if every condition holds. Returns only when
    /// the change is durable. A condition that fails is [`Outcome::Conflict`], not an error.
    async fn commit(&self, commit: Commit) -> Result<Outcome>;

    /// Every change to keys that start with `prefix`, after revision `after`. [`Error::Compacted`] if
    /// that history is gone. A watcher that is too slow to follow gets [`Error::SlowWatcher`] and ends.
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch>;

    /// The newest durable revision.
    async fn revision(&self) -> Result<Revision>;

    /// Forgets history before `revision`: reads at `revision` and watches after it still work. Engines
    /// do this by themselves with age and size, see [`Options`].
    async fn compact(&self, revision: Revision) -> Result<()>;

    /// When it was at which revision, the oldest that can be read at first. Times before a restart are not known.
    fn moments(&self) -> Vec<Moment> {
        Vec::new()
    }

    /// Waits until nothing can be written any more, whatever is tried: closed, or broken for good.
    async fn ended(&self) {
        std::future::pending().await
    }

    /// The store with values as they lie there, where this one reads and writes them in another form: what a backup is
    /// made of.
    fn at_rest(&self) -> Option<Arc<dyn Store>> {
        None
    }

    /// Whether the same value would lie there in another form if it were written again.
    async fn is_stale(&self, _key: &str) -> Result<bool> {
        Ok(false)
    }

    /// Asks for a [`WatchItem::Progress`] on `watch` as soon as it has delivered everything up to the
    /// newest revision, which is returned. The item may tell a later revision.
    async fn request_progress(&self, watch: &Watch) -> Result<Revision> {
        let newest = self.revision().await?;
        watch.promise_progress(newest);
        Ok(newest)
    }
}
