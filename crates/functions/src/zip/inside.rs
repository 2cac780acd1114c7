//! Takes `../` off the names in an archive, as `unzip` does, by which OpenWhisk's runtimes unpack.

use super::FILE;
use super::check::{ENTRY_LENGTH, Entry, directory};
use super::pack::end;
use super::read::packed;

const ABOVE: &str = "../";
/// The flag that lengths stand behind the content. They are put before it.
const DESCRIBED: u8 = 1 << 3;

/// The archive whose names do not begin with `../`, what they name unchanged. None if none did, or if it cannot be read.
pub fn inside(archive: &[u8]) -> Option<Vec<u8>> {
    let (count, mut rest) = directory(archive).ok()?;
    let (mut files, mut records, mut kept, mut is_changed) = (Vec::new(), Vec::new(), 0, false);
    for _ in 0..count {
        let (mut head, (entry, after)) = (*rest.first_chunk::<ENTRY_LENGTH>()?, Entry::read(rest)?);
        rest = after;
        let name = entry.name.trim_start_matches(ABOVE);
        is_changed |= name.len() < entry.name.len();
        if name.is_empty() {
            continue;
        }
        let content = packed(archive, &entry)?;
        // Entries that share their content would make more than there is.
        if files.len() + content.len() > archive.len() {
            return None;
        }
        head[8] &= !DESCRIBED;
        head[28..30].copy_from_slice(&u16::try_from(name.len()).ok()?.to_le_bytes());
        // What is added to names, and comments, is of no use to runtimes.
        head[30..34].fill(0);
        head[42..].copy_from_slice(&u32::try_from(files.len()).ok()?.to_le_bytes());
        files.extend(FILE.to_le_bytes());
        files.extend(&head[6..32]);
        files.extend(name.as_bytes());
        files.extend(content);
        records.extend(head);
        records.extend(name.as_bytes());
        kept += 1;
    }
    end(&mut files, &records, kept).ok()?;
    is_changed.then_some(files)
}
