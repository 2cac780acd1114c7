//! Forgetting: removes history that compaction has put out of reach, a little with every write.

use redb::{ReadableTable, StorageError, Table};

use crate::Revision;

/// Removes up to `budget` log rows at or before `compacted`, and the values they made unreachable: what a
/// change replaced, and the mark that a deletion left. Returns whether there is more to do.
pub(super) fn purge(
    history: &mut Table<'_, (&str, Revision), Option<&[u8]>>,
    log: &mut Table<'_, (Revision, u32), (&str, Revision, bool)>,
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
