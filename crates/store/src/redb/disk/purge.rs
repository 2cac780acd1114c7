//! Removing: values that compaction has put out of reach, a little with every write; and what a failed write
//! has left behind.

use redb::{ReadableTable, StorageError, Table};

use crate::Revision;

type Values<'a> = Table<'a, (Revision, &'static str), &'static [u8]>;
type Changes<'a> = Table<'a, (Revision, &'static str), (Revision, bool)>;

/// Removes up to `budget` changes at or before `compacted`, and the values they replaced. Returns whether
/// there is more to do.
pub(super) fn purge(
    values: &mut Values<'_>,
    changes: &mut Changes<'_>,
    compacted: Revision,
    budget: usize,
) -> Result<bool, StorageError> {
    let mut rows = Vec::new();
    for row in changes.range(..(compacted + 1, ""))?.take(budget) {
        let (at, change) = row?;
        let (revision, key) = at.value();
        rows.push((revision, key.to_owned(), change.value().0));
    }
    for (revision, key, replaced) in &rows {
        if *replaced > 0 {
            values.remove((*replaced, key.as_str()))?;
        }
        changes.remove((*revision, key.as_str()))?;
    }
    Ok(rows.len() == budget)
}

/// Removes all changes after `base`.
pub(super) fn take_back(
    values: &mut Values<'_>,
    changes: &mut Changes<'_>,
    base: Revision,
) -> Result<(), StorageError> {
    let mut rows = Vec::new();
    for row in changes.range((base + 1, "")..)? {
        let (at, _) = row?;
        let (revision, key) = at.value();
        rows.push((revision, key.to_owned()));
    }
    for (revision, key) in &rows {
        values.remove((*revision, key.as_str()))?;
        changes.remove((*revision, key.as_str()))?;
    }
    Ok(())
}
