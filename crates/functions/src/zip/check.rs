//! Whether an archive can be unpacked without harm, by its directory alone.

use std::collections::HashSet;

use thiserror::Error;

use super::{DEFLATED, END, ENTRY, STORED};

const MOST_FILES: usize = 16_384;
const LARGEST_WHOLE: u64 = 256 << 20;
/// Text and code shrink to a tenth at best.
const LARGEST_RATIO: u64 = 100;
/// Below this nothing can do harm, whatever it was packed from.
const HARMLESS: u64 = 1 << 20;
const LONGEST_NAME: usize = 240;
/// The end of the directory with the longest comment.
const END_LENGTH: usize = 22;
pub(super) const ENTRY_LENGTH: usize = 46;
const LINK: u32 = 0o120_000;
const KIND: u32 = 0o170_000;

#[derive(Debug, Error, PartialEq, Eq)]
pub enum ZipError {
    #[error("it is not a zip archive, or it is cut off")]
    Broken,
    #[error("it has no file")]
    Empty,
    #[error("it has more than {MOST_FILES} files")]
    TooMany,
    #[error("the name {0:?} leads out of the archive or is no plain relative path")]
    Name(String),
    #[error("{0} is a link; put the file itself in")]
    Link(String),
    #[error("there are two files called {0}")]
    Duplicate(String),
    #[error("{0} is encrypted, or packed in another way than zip's usual one")]
    Method(String),
    #[error("unpacked it has {0} bytes, more than {LARGEST_WHOLE}")]
    TooLarge(u64),
    #[error("{0} bytes come out of every byte: no code is packed like that")]
    Ratio(u64),
}

/// Refuses what could do harm to whoever unpacks it.
pub fn check(archive: &[u8]) -> Result<(), ZipError> {
    entries(archive).map(drop)
}

/// What is in an archive that does no harm.
pub(super) fn entries(archive: &[u8]) -> Result<Vec<Entry>, ZipError> {
    let (count, directory) = directory(archive)?;
    let (mut rest, mut whole, mut seen) = (directory, 0_u64, Seen::default());
    let mut entries = Vec::new();
    for _ in 0..count {
        let (entry, after) = Entry::read(rest).ok_or(ZipError::Broken)?;
        entry.check(archive)?;
        seen.add(&entry.name)?;
        whole = whole.saturating_add(u64::from(entry.size));
        rest = after;
        entries.push(entry);
    }
    if whole > LARGEST_WHOLE {
        return Err(ZipError::TooLarge(whole));
    }
    let ratio = whole / archive.len().max(1) as u64;
    if whole > HARMLESS && ratio > LARGEST_RATIO {
        return Err(ZipError::Ratio(ratio));
    }
    Ok(entries)
}

/// How many entries there should be, and the bytes that have them.
pub(super) fn directory(archive: &[u8]) -> Result<(u16, &[u8]), ZipError> {
    let end = end(archive).ok_or(ZipError::Broken)?;
    let (count, size, start) = (u16_at(end, 10), u32_at(end, 12), u32_at(end, 16));
    let (count, size, start) = (count.unwrap_or(0), size.unwrap_or(0) as usize, start.unwrap_or(0) as usize);
    let directory =
        start.checked_add(size).and_then(|end| archive.get(start..end)).ok_or(ZipError::Broken)?;
    if count == 0 {
        return Err(ZipError::Empty);
    }
    if usize::from(count) > MOST_FILES {
        return Err(ZipError::TooMany);
    }
    Ok((count, directory))
}

pub(super) struct Entry {
    pub name: String,
    flags: u16,
    pub method: u16,
    pub packed: u32,
    pub size: u32,
    mode: u32,
    pub offset: u32,
}

impl Entry {
    pub fn read(bytes: &[u8]) -> Option<(Entry, &[u8])> {
        let head = bytes.get(..ENTRY_LENGTH).filter(|head| u32_at(head, 0) == Some(ENTRY))?;
        let length = |at| u16_at(head, at).map(usize::from);
        let name = bytes.get(ENTRY_LENGTH..ENTRY_LENGTH + length(28)?)?;
        let entry = Entry {
            // Names in other encodings are none that a runtime could import.
            name: std::str::from_utf8(name).ok()?.to_owned(),
            flags: u16_at(head, 8)?,
            method: u16_at(head, 10)?,
            packed: u32_at(head, 20)?,
            size: u32_at(head, 24)?,
            mode: u32_at(head, 38)? >> 16,
            offset: u32_at(head, 42)?,
        };
        let whole = ENTRY_LENGTH + length(28)? + length(30)? + length(32)?;
        Some((entry, bytes.get(whole..)?))
    }

    fn check(&self, archive: &[u8]) -> Result<(), ZipError> {
        let name = &self.name;
        if !is_plain(name) {
            return Err(ZipError::Name(name.clone()));
        }
        if self.mode & KIND == LINK {
            return Err(ZipError::Link(name.clone()));
        }
        if self.flags & 1 != 0 || !matches!(self.method, STORED | DEFLATED) {
            return Err(ZipError::Method(name.clone()));
        }
        let content = u64::from(self.offset) + u64::from(self.packed);
        let fits = content <= archive.len() as u64;
        let is_file = u32_at(archive, self.offset as usize) == Some(super::FILE);
        let is_honest = self.method == DEFLATED || self.packed == self.size;
        if fits && is_file && is_honest { Ok(()) } else { Err(ZipError::Broken) }
    }
}

/// Which names there are: none twice, and none that is both file and folder.
#[derive(Default)]
struct Seen {
    files: HashSet<String>,
    folders: HashSet<String>,
}

impl Seen {
    fn add(&mut self, name: &str) -> Result<(), ZipError> {
        let duplicate = || ZipError::Duplicate(name.to_owned());
        let mut above = name.trim_end_matches('/');
        if name.ends_with('/') {
            self.folders.insert(above.to_owned());
        } else if !self.files.insert(name.to_owned()) || self.folders.contains(name) {
            return Err(duplicate());
        }
        while let Some((folder, _)) = above.rsplit_once('/') {
            if self.files.contains(folder) {
                return Err(duplicate());
            }
            self.folders.insert(folder.to_owned());
            above = folder;
        }
        if self.files.contains(name.trim_end_matches('/')) && name.ends_with('/') {
            return Err(duplicate());
        }
        Ok(())
    }
}

/// A relative path of ordinary names; folders end with a slash.
fn is_plain(name: &str) -> bool {
    let path = name.strip_suffix('/').unwrap_or(name);
    !path.is_empty()
        && path.len() <= LONGEST_NAME
        && !path.contains(['\\', ':', '\0'])
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// The last record: comments may follow it.
fn end(archive: &[u8]) -> Option<&[u8]> {
    let last = archive.len().checked_sub(END_LENGTH)?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    let at = (first..=last).rev().find(|at| {
        let comment = u16_at(archive, at + 20).map(usize::from);
        u32_at(archive, *at) == Some(END) && comment == Some(archive.len() - at - END_LENGTH)
    })?;
    archive.get(at..)
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}
