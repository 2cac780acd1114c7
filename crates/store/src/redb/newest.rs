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

    /// For rebuilding from disk.
    pub(super) fn insert(&mut self, key: &str, value: Bytes, revision: Revision) {
        self.entries.insert(key.into(), Version { value, revision });
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
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
        take_page(self.entries_in(range), entry, range.limit, self.revision)
    }

    /// What the page was at `revision`, given all events since then.
    pub(super) fn page_before<'a>(
        &self,
        range: &Range,
        revision: Revision,
        events: impl Iterator<Item = &'a Arc<Event>>,
    ) -> Page {
        let mut undone = BTreeMap::<&str, Option<&Entry>>::new();
        for event in events.filter(|event| is_in(range, &event.key)) {
            undone.entry(&event.key).or_insert(event.previous.as_ref());
        }
        let mut newest = self.entries_in(range).peekable();
        let mut undone = undone.into_iter().peekable();
        let merged = std::iter::from_fn(|| {
            loop {
                let next_undone = undone.peek().map(|(key, _)| *key);
                let next_newest = newest.peek().map(|(key, _)| &***key);
                match (next_newest, next_undone) {
                    (Some(key), Some(changed)) if key < changed => return newest.next().map(entry),
                    (Some(_), None) => return newest.next().map(entry),
                    (Some(key), Some(changed)) if key == changed => {
                        newest.next();
                    }
                    _ => {}
                }
                if let Some(entry) = undone.next()?.1 {
                    return Some(entry.clone());
                }
            }
        });
        take_page(merged, |entry| entry, range.limit, revision)
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

fn is_in(range: &Range, key: &str) -> bool {
    key.starts_with(&range.prefix) && range.after.as_deref().is_none_or(|after| key > after)
}

fn entry((key, version): (&Arc<str>, &Version)) -> Entry {
    Entry { key: key.clone(), value: version.value.clone(), revision: version.revision }
}

fn take_page<T>(
    mut entries: impl Iterator<Item = T>,
    to_entry: impl Fn(T) -> Entry,
    limit: usize,
    revision: Revision,
) -> Page {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let taken: Vec<Entry> = entries.by_ref().take(limit).map(to_entry).collect();
    let remaining = entries.count() as u64;
    Page { entries: taken, revision, more: remaining > 0, remaining: Some(remaining) }
}
