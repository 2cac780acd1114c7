//! Makes an archive. Times are fixed, so the same files give the same bytes.

use std::io::{self, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::{DEFLATED, END, ENTRY, FILE};

/// 1980-01-01, the first day that the format knows.
const DAY: u16 = 0x21;
const VERSION: u16 = 20;
/// Made on Unix.
const MADE_BY: u16 = (3 << 8) | VERSION;
const UTF8: u16 = 1 << 11;
const MODE: u32 = 0o100_644 << 16;

/// Files by their path in the archive, with `/` between folders.
pub fn pack(files: &[(String, Vec<u8>)]) -> io::Result<Vec<u8>> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let offset = small(out.len())?;
        let mut packer = DeflateEncoder::new(Vec::new(), Compression::default());
        packer.write_all(content)?;
        let packed = packer.finish()?;
        let mut crc = Crc::new();
        crc.update(content);
        let mut common = Vec::new();
        for number in [VERSION, UTF8, DEFLATED, 0, DAY] {
            common.extend(number.to_le_bytes());
        }
        for number in [crc.sum(), small(packed.len())?, small(content.len())?] {
            common.extend(number.to_le_bytes());
        }
        let name_length = u16::try_from(name.len()).map_err(|_| too_large())?;
        common.extend(name_length.to_le_bytes());
        common.extend(0_u16.to_le_bytes());
        out.extend(FILE.to_le_bytes());
        out.extend(&common);
        out.extend(name.as_bytes());
        out.extend(&packed);
        directory.extend(ENTRY.to_le_bytes());
        directory.extend(MADE_BY.to_le_bytes());
        directory.extend(&common);
        // No comment, on the first disk, no attributes of the inside.
        directory.extend([0; 6]);
        directory.extend(MODE.to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    end(&mut out, &directory, files.len())?;
    Ok(out)
}

/// The directory behind the files.
pub(super) fn end(out: &mut Vec<u8>, directory: &[u8], count: usize) -> io::Result<()> {
    let (start, count) = (small(out.len())?, u16::try_from(count).map_err(|_| too_large())?);
    out.extend(directory);
    out.extend(END.to_le_bytes());
    out.extend([0; 4]);
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(small(directory.len())?.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    Ok(())
}

fn small(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| too_large())
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "too large for a zip archive")
}
