//! How far each log file was read, kept in a file of the data dir.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use tracing::warn;

/// By the path below the folder of logs: the file's inode, and the offset in it.
type Known = HashMap<String, (u64, u64)>;

pub struct Positions {
    file: PathBuf,
    known: Known,
    /// Logs that are there when the export is switched on for the first time are not told of.
    pub is_first: bool,
}

impl Positions {
    pub fn load(file: PathBuf) -> Self {
        let read = fs::read(&file).ok();
        let known = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Positions { is_first: known.is_none(), known: known.unwrap_or_default(), file }
    }

    /// Where to go on in a log, if it is known.
    pub fn of(&self, path: &str) -> Option<(u64, u64)> {
        self.known.get(path).copied()
    }

    /// Remembers these alone. Nothing is written where nothing has changed.
    pub fn save(&mut self, now: Known) {
        if now == self.known && self.file.exists() {
            return;
        }
        let unfinished = self.file.with_extension("unfinished");
        let bytes = serde_json::to_vec(&now).unwrap_or_default();
        let written = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, &self.file));
        match written {
            Ok(()) => self.known = now,
            Err(error) => {
                warn!(%error, file = %self.file.display(), "cannot remember which logs were exported")
            }
        }
    }
}
