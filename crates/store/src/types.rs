//! The words the store speaks.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::Result;

/// A point in the store's history. 0 is "before everything".
pub type Revision = u64;

/// One key as it was at some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Arc<str>,
    pub value: Bytes,
    /// When this value was written.
    pub revision: Revision,
}

/// A read of many keys.
#[derive(Debug, Clone, Default)]
pub struct Range {
    pub prefix: String,
    /// Skip keys up to and including this one (to go on with a page).
    pub after: Option<String>,
    /// 0 is no limit.
    pub limit: usize,
    /// None is the newest revision.
    pub revision: Option<Revision>,
}

#[derive(Debug, Clone)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// The snapshot that was read.
    pub revision: Revision,
    /// There are more keys after the last entry.
    pub more: bool,
    /// How many more keys there are, where the engine can tell cheaply.
    pub remaining: Option<u64>,
}

/// An atomic change: all operations or none.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    pub conditions: Vec<Condition>,
    pub ops: Vec<Op>,
}

/// The key must have been last written at exactly `revision`; 0 means it must not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub key: String,
    pub revision: Revision,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Put { key: String, value: Bytes },
    Delete { key: String },
}

#[derive(Debug, Clone)]
pub enum Outcome {
    Committed(Revision),
    Conflict(Conflict),
}

/// The first condition that did not hold, and what was found instead.
#[derive(Debug, Clone)]
pub struct Conflict {
    pub key: String,
    pub found: Option<Entry>,
}

/// One change of one key, as watchers see it.
#[derive(Debug, Clone)]
pub struct Event {
    pub revision: Revision,
    pub key: Arc<str>,
    pub change: Change,
    /// What was there before; None for a new key.
    pub previous: Option<Entry>,
}

#[derive(Debug, Clone)]
pub enum Change {
    Put(Bytes),
    Delete,
}

#[derive(Debug, Clone)]
pub enum WatchItem {
    Event(Arc<Event>),
    /// All events up to this revision have been delivered (sent now and then while nothing happens).
    Progress(Revision),
}

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    receiver: mpsc::Receiver<Result<WatchItem>>,
}

impl Watch {
    pub fn new(receiver: mpsc::Receiver<Result<WatchItem>>) -> Self {
        Watch { receiver }
    }

    /// The next item; None when the store closed. After an error nothing follows.
    pub async fn next(&mut self) -> Option<Result<WatchItem>> {
        self.receiver.recv().await
    }

    pub fn poll_next(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<WatchItem>>> {
        self.receiver.poll_recv(cx)
    }
}
