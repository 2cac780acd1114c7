//! What can go wrong, apart from a condition that does not hold.

use crate::Revision;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("revision {requested} has been compacted; the oldest kept is {oldest}")]
    Compacted { requested: Revision, oldest: Revision },
    #[error("revision {requested} is in the future; the newest is {newest}")]
    FutureRevision { requested: Revision, newest: Revision },
    #[error("the watcher fell too far behind and was cut off")]
    SlowWatcher,
    #[error("the store is closed")]
    Closed,
    #[error("{0} is in use by another process; stop that one, or choose another data directory")]
    InUse(String),
    /// The store could not be opened; the text says what to do about it.
    #[error("cannot open the store: {0}")]
    Open(String),
    /// It is to be filled with the contents of another store, but has contents of its own.
    #[error("{0} is not empty")]
    NotEmpty(String),
    /// A value lies there in a form that cannot be read, or cannot be brought into the form in which it should lie; the
    /// text says which and what to do about it.
    #[error("{0}")]
    Encryption(String),
    /// The disk or the etcd cluster did not do what it was asked.
    #[error("the store failed: {0}")]
    Engine(String),
}
