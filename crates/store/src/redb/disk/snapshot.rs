//! Reading the past from the file as it is at one moment. Whoever reads takes the snapshot first and checks
//! afterwards that what it wants is not compacted: what is compacted later is still in the snapshot.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use redb::{ReadOnlyTable, ReadTransaction};

use super::{CHANGES, Disk, VALUES};
use crate::{Change, Entry, Event, Result, Revision};

/// One call reads no more than this, so that a long replay takes its disk in turns with others.
const REPLAY_ROWS: usize = 2048;
const REPLAY_BYTES: usize = 1 << 20;

pub(in super::super) struct Snapshot<'a> {
    disk: &'a Disk,
    transaction: ReadTransaction,
}

/// Some of the changes after a revision.
pub(in super::super) struct Replayed {
    pub(in super::super) events: Vec<Arc<Event>>,
    /// Everything up to here has been looked at.
    pub(in super::super) reached: Revision,
}

type Values = ReadOnlyTable<(Revision, &'static str), &'static [u8]>;

impl Disk {
    pub(in super::super) fn snapshot(&self) -> Result<Snapshot<'_>> {
        Ok(Snapshot { disk: self, transaction: self.guarded("reading", || self.read())? })
    }
}

impl Snapshot<'_> {
    /// Calls `found` with each key that changed in `revisions`, in their order, and what that replaced.
    pub(in super::super) fn for_each_change(
        &self,
        revisions: RangeInclusive<Revision>,
        mut found: impl FnMut(&str, Revision),
    ) -> Result<()> {
        self.disk.guarded("reading", || {
            let changes = self.transaction.open_table(CHANGES)?;
            for row in changes.range((*revisions.start(), "")..(revisions.end() + 1, ""))? {
                let (at, change) = row?;
                found(at.value().1, change.value().0);
            }
            Ok(())
        })
    }

    /// What was put under each key at its revision.
    pub(in super::super) fn entries(&self, wanted: Vec<(Arc<str>, Revision)>) -> Result<Vec<Entry>> {
        self.disk.guarded("reading", || {
            let values = self.transaction.open_table(VALUES)?;
            wanted.into_iter().map(|(key, revision)| entry(&values, key, revision)).collect()
        })
    }

    /// Changes of keys with `prefix` after `after`, up to `newest` at most.
    pub(in super::super) fn replay(
        &self,
        prefix: &str,
        after: Revision,
        newest: Revision,
    ) -> Result<Replayed> {
        self.disk.guarded("reading", || {
            let changes = self.transaction.open_table(CHANGES)?;
            let values = self.transaction.open_table(VALUES)?;
            let mut events = Vec::new();
            let mut bytes = 0;
            let mut reached = after;
            for (rows, row) in changes.range((after + 1, "")..(newest + 1, ""))?.enumerate() {
                let (at, change) = row?;
                let (revision, key) = at.value();
                if revision > reached && (rows >= REPLAY_ROWS || bytes >= REPLAY_BYTES) {
                    return Ok(Replayed { events, reached });
                }
                reached = revision;
                if key.starts_with(prefix) {
                    let event = event(&values, key, revision, change.value())?;
                    bytes += event.value_bytes();
                    events.push(Arc::new(event));
                }
            }
            Ok(Replayed { events, reached: newest })
        })
    }
}

fn event(
    values: &Values,
    key: &str,
    revision: Revision,
    (replaced, deleted): (Revision, bool),
) -> Result<Event, redb::Error> {
    let key = Arc::<str>::from(key);
    let previous = (replaced > 0).then(|| entry(values, key.clone(), replaced)).transpose()?;
    let change =
        if deleted { Change::Delete } else { Change::Put(entry(values, key.clone(), revision)?.value) };
    Ok(Event { revision, key, change, previous })
}

fn entry(values: &Values, key: Arc<str>, revision: Revision) -> Result<Entry, redb::Error> {
    match values.get((revision, &*key))? {
        Some(value) => Ok(Entry { value: Bytes::copy_from_slice(value.value()), key, revision }),
        None => Err(redb::Error::Corrupted(format!("the value of {key} at revision {revision} is missing"))),
    }
}
