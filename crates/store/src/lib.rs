//! A durable, versioned key-value store with watches: what the API server stands on.
//!
//! Every commit gets the next [`Revision`]. Reads may ask for an older revision until it is compacted;
//! watches deliver every change after a revision, in order, without gaps, or end with an error. Engines:
//! redb (embedded, one file) and etcd. The store knows nothing of Kubernetes: keys are strings, values bytes.

mod error;
mod types;

pub use error::{Error, Result};
pub use types::{
    Change, Commit, Condition, Conflict, Entry, Event, Op, Outcome, Page, Range, Revision, Watch, WatchItem,
};

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

    /// Forgets history up to and including `revision`, except the newest entries.
    async fn compact(&self, revision: Revision) -> Result<()>;
}
