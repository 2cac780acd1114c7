//! Removing: history that compaction has put out of reach, a little with every write; and what a failed
//! write has left behind.

use redb::{ReadableTable, StorageError, Table};

use crate::Revision;

type History<'a> = Table<'a, (&'static str, Revision), Option<&'static [u8]>>;
type Log<'a> = Table<'a, (Revision, u32), (&'static str, Revision, bool)>;

/// Removes up to `budget` log rows at or before `compacted`, and the values they made unreachable: what a
/// change replaced, and the mark that a deletion left. Returns whether there is more to do.
pub(super) fn purge(
    history: &mut History<'_>,
    log: &mut Log<'_>,
    compacted: Revision,
    budget: usize,
) -> Result<bool, StorageError> {
    let mut rows = Vec::new();
    for row in log.range(..=(compacted, u32::MAX))?.take(budget) {
        let (number, change) = row?;
        let (key, replaced, deleted) = change.value();
        rows.push((number.value(), key.to_owned(), replaced, deleted));
    }
    for (number, key, replaced, deleted) in &rows {
        if *replaced > 0 {
            history.remove((key.as_str(), *replaced))?;
        }
        if *deleted {
            history.remove((key.as_str(), number.0))?;
        }
        log.remove(number)?;
    }
    Ok(rows.len() == budget)
}

/// Removes all changes after `base`.
pub(super) fn take_back(
    history: &mut History<'_>,
    log: &mut Log<'_>,
    base: Revision,
) -> Result<(), StorageError> {
    let mut rows = Vec::new();
    for row in log.range((base + 1, 0)..)? {
        let (number, change) = row?;
        rows.push((number.value(), change.value().0.to_owned()));
    }
    for (number, key) in &rows {
        history.remove((key.as_str(), number.0))?;
        log.remove(number)?;
    }
    Ok(())
}
