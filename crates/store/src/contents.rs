//! Everything that is in a store at one revision: what a backup holds, and what another store can be filled with.

use bytes::Bytes;

use crate::{Range, Result, Revision, Store};

/// Keys read at a time.
const PAGE: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    pub revision: Revision,
    /// In the order of their keys.
    pub entries: Vec<(String, Bytes)>,
}

impl Contents {
    pub async fn read(store: &dyn Store) -> Result<Contents> {
        let mut reader = Reader::new(store).await?;
        let mut entries = Vec::new();
        while let Some(more) = reader.next(store).await? {
            entries.extend(more);
        }
        Ok(Contents { revision: reader.revision, entries })
    }

    /// The same at a revision that is surely above all that were handed out, also after these were read.
    pub fn for_another_life(mut self) -> Contents {
        /// More writes than a cluster makes between two backups: a thousand a second for eleven days.
        const LEAP: Revision = 1_000_000_000;
        self.revision = self.revision.saturating_add(LEAP);
        self
    }
}

/// Reads the contents in parts, all of one revision, while others write.
pub struct Reader {
    pub revision: Revision,
    after: Option<String>,
    more: bool,
}

impl Reader {
    pub async fn new(store: &dyn Store) -> Result<Reader> {
        Ok(Reader { revision: store.revision().await?, after: None, more: true })
    }

    /// None at the end.
    pub async fn next(&mut self, store: &dyn Store) -> Result<Option<Vec<(String, Bytes)>>> {
        if !self.more {
            return Ok(None);
        }
        let (after, revision) = (self.after.take(), Some(self.revision));
        let page = store.range(Range { prefix: String::new(), after, limit: PAGE, revision }).await?;
        self.more = page.more;
        self.after = page.entries.last().map(|entry| entry.key.to_string());
        Ok(Some(page.entries.into_iter().map(|entry| (entry.key.to_string(), entry.value)).collect()))
    }
}
