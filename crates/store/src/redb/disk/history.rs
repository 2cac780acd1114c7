//! Reading the past: pages at an old revision, and changes since one.
//!
//! Every read takes its snapshot first and checks afterwards that the revision is not compacted: what is
//! compacted later is still in the snapshot.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use redb::ReadOnlyTable;

use super::{Disk, HISTORY, LOG};
use crate::{Change, Entry, Event, Page, Range, Result, Revision};

/// After this many versions of one key it is quicker to search for the wanted one than to walk on.
const WALK: usize = 8;
/// One call reads no more than this, so that a long replay takes its disk in turns with others.
const REPLAY_ROWS: usize = 2048;
const REPLAY_BYTES: usize = 1 << 20;

type History = ReadOnlyTable<(&'static str, Revision), Option<&'static [u8]>>;

/// Some of the changes after a revision.
pub(in super::super) struct Replayed {
    pub(in super::super) events: Vec<Arc<Event>>,
    /// Everything up to here has been looked at.
    pub(in super::super) reached: Revision,
}

impl Disk {
    /// A page as of `revision`. `check` says whether that is still there.
    pub(in super::super) fn page(
        &self,
        range: &Range,
        revision: Revision,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<Page> {
        let mut checked = Ok(());
        let page = self.guarded("reading", || {
            let history = self.read()?.open_table(HISTORY)?;
            checked = check();
            match checked {
                Ok(()) => page_at(&history, range, revision),
                Err(_) => Ok(Page { entries: Vec::new(), revision, more: false, remaining: None }),
            }
        });
        checked.and(page)
    }

    /// Changes of keys with `prefix` after `after`, up to `newest` at most.
    pub(in super::super) fn replay(
        &self,
        prefix: &str,
        after: Revision,
        newest: Revision,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<Replayed> {
        let mut checked = Ok(());
        let replayed = self.guarded("reading", || {
            let transaction = self.read()?;
            checked = check();
            let mut replayed = Replayed { events: Vec::new(), reached: newest };
            if checked.is_err() {
                return Ok(replayed);
            }
            let log = transaction.open_table(LOG)?;
            let history = transaction.open_table(HISTORY)?;
            let mut bytes = 0;
            let mut reached = after;
            for (rows, row) in log.range((after + 1, 0)..=(newest, u32::MAX))?.enumerate() {
                let (number, change) = row?;
                let (revision, _) = number.value();
                if revision > reached && (rows >= REPLAY_ROWS || bytes >= REPLAY_BYTES) {
                    replayed.reached = reached;
                    return Ok(replayed);
                }
                reached = revision;
                let (key, previous, _) = change.value();
                if key.starts_with(prefix) {
                    let event = event(&history, key, revision, previous)?;
                    bytes += event.value_bytes();
                    replayed.events.push(Arc::new(event));
                }
            }
            Ok(replayed)
        });
        checked.and(replayed)
    }
}

fn event(history: &History, key: &str, revision: Revision, previous: Revision) -> Result<Event, redb::Error> {
    let key = Arc::<str>::from(key);
    let value = |at: Revision| {
        let row = history.get((&*key, at))?;
        let lost =
            || redb::Error::Corrupted(format!("{key} at revision {at} is in the log but not in history"));
        row.map(|value| value.value().map(Bytes::copy_from_slice)).ok_or_else(lost)
    };
    let change = value(revision)?.map_or(Change::Delete, Change::Put);
    let previous = match previous {
        0 => None,
        at => value(at)?.map(|value| Entry { key: key.clone(), value, revision: at }),
    };
    Ok(Event { revision, key, change, previous })
}

/// Walks the rows in order: all versions of a key, then the next key.
fn page_at(history: &History, range: &Range, revision: Revision) -> Result<Page, redb::Error> {
    let limit = if range.limit == 0 { usize::MAX } else { range.limit };
    let mut page = Page { entries: Vec::new(), revision, more: false, remaining: Some(0) };
    let mut rows = history.range::<(&str, Revision)>((first_row(range), Bound::Unbounded))?;
    let mut current = Versions::default();
    while let Some(row) = rows.next() {
        let (at, value) = row?;
        let (key, written) = at.value();
        if key != current.key {
            if !key.starts_with(&range.prefix) {
                break;
            }
            let finished =
                std::mem::replace(&mut current, Versions { key: key.to_owned(), ..Default::default() });
            page.entries.extend(finished.entry());
            if page.entries.len() > limit {
                break;
            }
        }
        current.walked += 1;
        if current.walked > WALK {
            let found = history.range((key, 0)..=(key, revision))?.next_back().transpose()?;
            current.newest =
                found.map(|(at, value)| (at.value().1, value.value().map(Bytes::copy_from_slice)));
            rows = history
                .range::<(&str, Revision)>((Bound::Excluded((key, Revision::MAX)), Bound::Unbounded))?;
        } else if written <= revision {
            current.newest = Some((written, value.value().map(Bytes::copy_from_slice)));
        }
    }
    page.entries.extend(current.entry());
    if page.entries.len() > limit {
        page.entries.truncate(limit);
        page.more = true;
        page.remaining = None;
    }
    Ok(page)
}

fn first_row(range: &Range) -> Bound<(&str, Revision)> {
    match &range.after {
        Some(after) if after.as_str() >= range.prefix.as_str() => Bound::Excluded((after, Revision::MAX)),
        _ => Bound::Included((&range.prefix, 0)),
    }
}

/// What has been seen of one key.
#[derive(Default)]
struct Versions {
    key: String,
    walked: usize,
    /// The newest version not after the wanted revision; a value of None is a deletion.
    newest: Option<(Revision, Option<Bytes>)>,
}

impl Versions {
    fn entry(self) -> Option<Entry> {
        let (revision, value) = self.newest?;
        Some(Entry { key: self.key.into(), value: value?, revision })
    }
}
