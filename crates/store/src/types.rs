//! The words the store speaks.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

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

impl Range {
    /// Whether the key belongs to it, limit and revision aside.
    pub(crate) fn contains(&self, key: &str) -> bool {
        key.starts_with(&self.prefix) && self.after.as_deref().is_none_or(|after| key > after)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// The snapshot that was read.
    pub revision: Revision,
    /// There are more keys after the last entry.
    pub more: bool,
    /// How many more keys there are, where the engine can tell cheaply.
    pub remaining: Option<u64>,
}

/// An atomic change: all operations or none. Where several operations name the same key, the last one
/// counts. Deleting a key that does not exist changes nothing; a commit that changes nothing makes no
/// revision and reports the newest one.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    pub conditions: Vec<Condition>,
    pub ops: Vec<Op>,
}

impl Commit {
    /// The operations that count: the last one of each key.
    pub(crate) fn last_ops(self) -> Vec<Op> {
        if self.ops.len() < 2 {
            return self.ops;
        }
        let mut seen = HashSet::new();
        let mut last: Vec<Op> =
            self.ops.into_iter().rev().filter(|op| seen.insert(op.key().to_owned())).collect();
        last.reverse();
        last
    }
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

impl Op {
    pub fn key(&self) -> &str {
        match self {
            Op::Put { key, .. } | Op::Delete { key } => key,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Committed(Revision),
    Conflict(Conflict),
}

/// The first condition that did not hold, and what was found instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub key: String,
    pub found: Option<Entry>,
}

/// One change of one key, as watchers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub revision: Revision,
    pub key: Arc<str>,
    pub change: Change,
    /// What was there before; None for a new key.
    pub previous: Option<Entry>,
}

impl Event {
    /// The bytes of its values.
    pub(crate) fn value_bytes(&self) -> usize {
        let value = match &self.change {
            Change::Put(value) => value.len(),
            Change::Delete => 0,
        };
        value + self.previous.as_ref().map_or(0, |previous| previous.value.len())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Put(Bytes),
    Delete,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchItem {
    Event(Arc<Event>),
    /// All events up to this revision have been delivered. Sent now and then while this watch is quiet
    /// but the store is not, and when asked for with [`crate::Store::request_progress`].
    Progress(Revision),
}
