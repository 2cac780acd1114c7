//! Takes files out of an archive, into memory. An archive that is not what its directory says gives nothing.

use std::io::Read;

use flate2::read::DeflateDecoder;

use super::DEFLATED;
use super::check::{Entry, ZipError, entries, u16_at};

const HEAD: usize = 30;

/// The names of all files, in the archive's order.
pub fn names(archive: &[u8]) -> Result<Vec<String>, ZipError> {
    let all = entries(archive)?.into_iter().map(|entry| entry.name);
    Ok(all.filter(|name| !name.ends_with('/')).collect())
}

/// The files whose names are wanted.
pub fn read(archive: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, Vec<u8>)>, ZipError> {
    let is_wanted = |entry: &Entry| !entry.name.ends_with('/') && wanted(&entry.name);
    let found = entries(archive)?.into_iter().filter(is_wanted).map(|entry| {
        let content = content(archive, &entry).ok_or(ZipError::Broken)?;
        Ok((entry.name, content))
    });
    found.collect()
}

/// Its bytes as they stand there.
pub(super) fn packed<'a>(archive: &'a [u8], entry: &Entry) -> Option<&'a [u8]> {
    let head = archive.get(entry.offset as usize..)?;
    let start = HEAD + usize::from(u16_at(head, 26)?) + usize::from(u16_at(head, 28)?);
    head.get(start..start.checked_add(entry.packed as usize)?)
}

fn content(archive: &[u8], entry: &Entry) -> Option<Vec<u8>> {
    let packed = packed(archive, entry)?;
    let size = u64::from(entry.size);
    let mut content = Vec::new();
    match entry.method {
        // One byte more than it says is one too many.
        DEFLATED => DeflateDecoder::new(packed).take(size + 1).read_to_end(&mut content).ok()?,
        _ => packed.take(size + 1).read_to_end(&mut content).ok()?,
    };
    (content.len() as u64 == size).then_some(content)
}
