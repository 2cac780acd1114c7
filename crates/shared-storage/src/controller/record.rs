//! What a volume or snapshot was made as, so that a call that wants another of the same name is refused, as CSI wants it.
//!
//! Each is a link in `records/` that leads nowhere: its text is among the file system's names, so it needs no copies of
//! data and is whole or not there. Volumes of before this was written have none; nothing is refused for them.

use std::fs;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::SharedError;
use crate::daemon::at;

pub const RECORDS: &str = "records";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The limit of a volume; 0 of a snapshot.
    pub bytes: u64,
    /// What it was copied from; empty if it began empty.
    pub source: String,
}

impl Record {
    /// None of a volume or snapshot (`kind`) that has none.
    pub fn read(root: &Path, kind: &str, name: &str) -> Result<Option<Record>, SharedError> {
        let path = place(root, kind, name);
        let text = match fs::read_link(&path) {
            Ok(text) => text.to_string_lossy().into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&path)(error)),
        };
        let (bytes, source) = text.split_once(' ').unwrap_or((text.as_str(), ""));
        let bytes =
            bytes.parse::<u64>().map_err(|error| at(&path)(Error::new(ErrorKind::InvalidData, error)))?;
        Ok(Some(Record { bytes, source: source.to_owned() }))
    }

    pub fn write(&self, root: &Path, kind: &str, name: &str) -> Result<(), SharedError> {
        let (path, new) = (place(root, kind, name), place(root, &format!(".new-{kind}"), name));
        remove_file(&new)?;
        let text = format!("{} {}", self.bytes, self.source);
        symlink(text.trim_end(), &new).map_err(at(&new))?;
        fs::rename(&new, &path).map_err(at(&path))
    }

    pub fn remove(root: &Path, kind: &str, name: &str) -> Result<(), SharedError> {
        remove_file(&place(root, kind, name))
    }
}

fn place(root: &Path, kind: &str, name: &str) -> PathBuf {
    root.join(RECORDS).join(format!("{kind}-{name}"))
}

fn remove_file(path: &Path) -> Result<(), SharedError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}
