//! The newest entry of every key, in memory and in order. Pure: the disk has it too, and first.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Change, Entry, Error, Event, Page, Range, Result, Revision};

#[derive(Debug, Default)]
pub(super) struct Newest {
    entries: BTreeMap<Arc<str>, Version>,
    revision: Revision,
    compacted: Revision,
}

#[derive(Debug, Clone)]
struct Version {
    value: Bytes,
    revision: Revision,
}

impl Newest {
    pub(super) fn new(revision: Revision, compacted: Revision) -> Self {
        Newest { entries: BTreeMap::new(), revision, compacted }
    }

    /// For rebuilding from disk, in the order of revisions. Returns the size of what was replaced.
    pub(super) fn restore(&mut self, key: &str, value: Bytes, revision: Revision) -> usize {
        let replaced = self.entries.insert(key.into(), Version { value, revision });
        replaced.map_or(0, |replaced| replaced.value.len())
    }

    /// For rebuilding from disk, after all values: the key was deleted at `revision`.
    pub(super) fn restore_deletion(&mut self, key: &str, revision: Revision) -> usize {
        match self.entries.get(key) {
            Some(version) if version.revision < revision => {
                self.entries.remove(key).map_or(0, |deleted| deleted.value.len())
            }
            _ => 0,
        }
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What keys and values take.
    pub(super) fn bytes(&self) -> u64 {
        self.entries.iter().map(|(key, version)| (key.len() + version.value.len()) as u64).sum()
    }

    pub(super) fn compacted(&self) -> Revision {
        self.compacted
    }

    /// Whether the store can be read at `revision` and watched after it.
    pub(super) fn check(&self, revision: Revision) -> Result<()> {
        if revision < self.compacted {
            return Err(Error::Compacted { requested: revision, oldest: self.compacted });
        }
        if revision > self.revision {
            return Err(Error::FutureRevision { requested: revision, newest: self.revision });
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &str) -> Option<Entry> {
        self.entries.get_key_value(key).map(entry)
    }

    pub(super) fn apply(&mut self, events: &[Arc<Event>], revision: Revision) {
        for event in events {
            match &event.change {
                Change::Put(value) => {
                    let version = Version { value: value.clone(), revision: event.revision };
                    self.entries.insert(event.key.clone(), version);
                }
                Change::Delete => {
                    self.entries.remove(&event.key);
                }
            }
        }
        self.revision = revision;
    }

    pub(super) fn compact(&mut self, revision: Revision) {
        self.compacted = self.compacted.max(revision);
    }

    pub(super) fn page(&self, range: &Range) -> Page {
        let mut found = self.entries_in(range);
        let entries = found.by_ref().take(at_most(range.limit)).map(entry).collect();
        let remaining = found.count() as u64;
        Page { entries, revision: self.revision, more: remaining > 0, remaining: Some(remaining) }
    }

    /// What the page was before the changes in `undone`, which must be all since then in that range.
    pub(super) fn page_before<T>(&self, range: &Range, undone: Undone<T>) -> PastPage<T> {
        let mut newest = self.entries_in(range).peekable();
        let mut undone = undone.into_iter().peekable();
        let mut merged = std::iter::from_fn(|| {
            loop {
                let Some((changed, _)) = undone.peek() else {
                    return newest.next().map(entry).map(Found::Newest);
                };
                if let Some(unchanged) = newest.next_if(|(key, _)| *key < changed) {
                    return Some(Found::Newest(entry(unchanged)));
                }
                newest.next_if(|(key, _)| *key == changed);
                if let Some((key, Some(then))) = undone.next() {
                    return Some(Found::Undone(key, then));
                }
            }
        });
        let found = merged.by_ref().take(at_most(range.limit)).collect();
        PastPage { found, remaining: merged.count() as u64 }
    }

    fn entries_in<'a>(&'a self, range: &'a Range) -> impl Iterator<Item = (&'a Arc<str>, &'a Version)> {
        let from = match &range.after {
            Some(after) if after.as_str() >= range.prefix.as_str() => Bound::Excluded(after.as_str()),
            _ => Bound::Included(range.prefix.as_str()),
        };
        let to_end = self.entries.range::<str, _>((from, Bound::Unbounded));
        to_end.take_while(|(key, _)| key.starts_with(&range.prefix))
    }
}

/// Keys that have changed since some revision, each with what it was then; None where it was not there.
pub(super) type Undone<T> = BTreeMap<Arc<str>, Option<T>>;

pub(super) enum Found<T> {
    Newest(Entry),
    Undone(Arc<str>, T),
}

pub(super) struct PastPage<T> {
    pub(super) found: Vec<Found<T>>,
    pub(super) remaining: u64,
}

fn entry((key, version): (&Arc<str>, &Version)) -> Entry {
    Entry { key: key.clone(), value: version.value.clone(), revision: version.revision }
}

fn at_most(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}
