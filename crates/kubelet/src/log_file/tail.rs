//! Where the last lines of a file begin.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

const BLOCK: u64 = 64 << 10;

/// Offset of the last `lines` lines. Reads the file from its end, so a long log costs nothing.
pub fn tail_offset(file: &mut File, lines: u64) -> io::Result<u64> {
    let length = file.metadata()?.len();
    if lines == 0 {
        return Ok(length);
    }
    let mut found = 0;
    let mut end = length;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        block.resize((end - start) as usize, 0);
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        for (index, byte) in block.iter().enumerate().rev() {
            let after = start + index as u64 + 1;
            // The newline at the very end closes the last line.
            if *byte == b'\n' && after < length {
                found += 1;
                if found == lines {
                    return Ok(after);
                }
            }
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, lines: u64, want: &str) {
        let named = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(named.path(), text).unwrap();
        let mut file = File::open(named.path()).unwrap();
        let offset = tail_offset(&mut file, lines).unwrap() as usize;
        assert_eq!(&text[offset..], want, "{lines} of {} bytes", text.len());
    }

    #[test]
    fn offsets() {
        check("", 1, "");
        check("a\nb\nc\n", 0, "");
        check("a\nb\nc\n", 1, "c\n");
        check("a\nb\nc\n", 2, "b\nc\n");
        check("a\nb\nc\n", 9, "a\nb\nc\n");
        check("a\nb", 1, "b");
        let long = "x".repeat(100_000);
        check(&format!("{long}\n{long}\nend\n"), 2, &format!("{long}\nend\n"));
    }
}
