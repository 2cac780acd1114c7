//! Reading the past: it is the present with all changes since then undone. The newest changes are in the
//! window, all others that are not compacted are on disk.

use std::sync::Arc;

use super::Shared;
use super::newest::{Found, PastPage, Undone};
use crate::{Entry, Event, Page, Range, Result, Revision};

/// The page as of `revision`, if the window reaches back to it.
pub(super) fn page_from_memory(shared: &Shared, range: &Range, revision: Revision) -> Result<Option<Page>> {
    let newest = shared.newest.read();
    newest.check(revision)?;
    let window = shared.hub.window();
    let Some(events) = window.after(revision) else { return Ok(None) };
    let mut undone = Undone::<Entry>::new();
    undo(&mut undone, range, events, |previous| previous.clone());
    let PastPage { found, remaining } = newest.page_before(range, undone);
    let entries = found.into_iter().map(|found| match found {
        Found::Newest(entry) | Found::Undone(_, entry) => entry,
    });
    Ok(Some(Page { entries: entries.collect(), revision, more: remaining > 0, remaining: Some(remaining) }))
}

/// The page as of `revision`. Blocks.
pub(super) fn page_from_disk(shared: &Shared, range: &Range, revision: Revision) -> Result<Page> {
    // Every value that was there at `revision` is in this snapshot, if it is not compacted now.
    let snapshot = shared.disk.snapshot()?;
    shared.check(revision)?;
    let PastPage { found, remaining } = present_undone(shared, range, revision)?;
    shared.check(revision)?;

    let past = found.iter().filter_map(|found| match found {
        Found::Newest(_) => None,
        Found::Undone(key, written) => Some((key.clone(), *written)),
    });
    let mut past = snapshot.entries(past.collect())?.into_iter();
    let entries = found.into_iter().filter_map(|found| match found {
        Found::Newest(entry) => Some(entry),
        Found::Undone(..) => past.next(),
    });
    Ok(Page { entries: entries.collect(), revision, more: remaining > 0, remaining: Some(remaining) })
}

/// Collects changes from disk while more are made, until the window has the rest.
fn present_undone(shared: &Shared, range: &Range, revision: Revision) -> Result<PastPage<Revision>> {
    let mut undone = Undone::<Revision>::new();
    let mut reached = revision;
    loop {
        let present = shared.newest.read().revision();
        shared.disk.snapshot()?.for_each_change(reached + 1..=present, |key, replaced| {
            if range.contains(key) && !undone.contains_key(key) {
                undone.insert(key.into(), Some(replaced).filter(|replaced| *replaced > 0));
            }
        })?;
        reached = present;
        let newest = shared.newest.read();
        if let Some(events) = shared.hub.window().after(reached) {
            undo(&mut undone, range, events, |previous| previous.revision);
            return Ok(newest.page_before(range, undone));
        }
    }
}

fn undo<'a, T>(
    undone: &mut Undone<T>,
    range: &Range,
    events: impl Iterator<Item = &'a Arc<Event>>,
    then: impl Fn(&Entry) -> T,
) {
    for event in events.filter(|event| range.contains(&event.key)) {
        undone.entry(event.key.clone()).or_insert_with(|| event.previous.as_ref().map(&then));
    }
}
