//! A log file that is read chunk by chunk, as the user wants to see it. Its calls block: they belong on a thread for that.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Options;
use crate::log_file::{Line, tail_offset};

const LONGEST_LINE: u64 = 1 << 20;
const CHUNK: usize = 32 << 10;

/// An open log file, always positioned at the beginning of a line.
pub struct Log {
    path: PathBuf,
    file: BufReader<File>,
    inode: u64,
    line: Vec<u8>,
    format: Format,
}

/// What a look at the file brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    Chunk(Vec<u8>),
    /// As many bytes as were wanted, the last of them in this chunk.
    Last(Vec<u8>),
    /// Nothing new yet.
    Nothing,
}

impl Log {
    pub fn open(path: &Path, options: Options) -> io::Result<Self> {
        let (file, inode) = open_at(path, options.tail)?;
        let format = Format { options, sent: 0, continued: false };
        Ok(Log { path: path.to_owned(), file, inode, line: Vec::new(), format })
    }

    /// The next formatted lines. At its end goes on with the file that has taken the place of this one, if any.
    pub fn read(&mut self) -> io::Result<Seen> {
        let mut chunk = self.read_file()?;
        if chunk.is_empty() && !self.format.is_full() && self.was_rotated() {
            // Lines that came between the last look and the rotation were read just now, or there were none.
            (self.file, self.inode) = open_at(&self.path, None)?;
            self.line.clear();
            chunk = self.read_file()?;
        }
        Ok(match (chunk.is_empty(), self.format.is_full()) {
            (_, true) => Seen::Last(chunk),
            (true, false) => Seen::Nothing,
            (false, false) => Seen::Chunk(chunk),
        })
    }

    fn read_file(&mut self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        while out.len() < CHUNK && !self.format.is_full() {
            let mut limited = io::Read::take(&mut self.file, LONGEST_LINE);
            let read = limited.read_until(b'\n', &mut self.line)?;
            let complete = self.line.ends_with(b"\n") || self.line.len() as u64 >= LONGEST_LINE;
            if read == 0 || !complete {
                // Half a line stays until its other half is written.
                break;
            }
            self.format.append(&self.line, &mut out);
            self.line.clear();
        }
        Ok(out)
    }

    fn was_rotated(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.ino() != self.inode)
    }
}

fn open_at(path: &Path, tail: Option<u64>) -> io::Result<(BufReader<File>, u64)> {
    let mut file = File::open(path)?;
    let start = match tail {
        Some(lines) => tail_offset(&mut file, lines)?,
        None => 0,
    };
    file.seek(SeekFrom::Start(start))?;
    let inode = file.metadata()?.ino();
    Ok((BufReader::with_capacity(CHUNK, file), inode))
}

/// Turns lines of the file into what the user sees.
struct Format {
    options: Options,
    sent: u64,
    /// The line before was partial: this one goes on without a time of its own.
    continued: bool,
}

impl Format {
    fn is_full(&self) -> bool {
        self.options.limit.is_some_and(|limit| self.sent >= limit)
    }

    fn append(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let Some(line) = Line::parse(raw) else { return };
        let too_old =
            self.options.since.is_some_and(|since| line.timestamp().is_none_or(|time| time < since));
        let other_stream = self.options.stream.as_ref().is_some_and(|stream| stream != line.stream);
        if too_old || other_stream {
            return;
        }
        let start = out.len();
        if self.options.timestamps && !self.continued {
            out.extend_from_slice(line.time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(line.text);
        if !line.partial {
            out.push(b'\n');
        }
        self.continued = line.partial;
        let added = (out.len() - start) as u64;
        let room = self.options.limit.map_or(added, |limit| limit.saturating_sub(self.sent).min(added));
        out.truncate(start + room as usize);
        self.sent += room;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-01-01T00:00:01Z stdout F one\n2026-01-01T00:00:02Z stderr P tw\n\
        2026-01-01T00:00:02Z stderr F o\nrubbish\n2026-01-01T00:00:03Z stdout F three\n2026-01-01T00:00:04Z stdout F ha";

    fn text(seen: Seen) -> String {
        match seen {
            Seen::Chunk(bytes) | Seen::Last(bytes) => String::from_utf8(bytes).unwrap(),
            Seen::Nothing => String::new(),
        }
    }

    fn check(options: Options, want: &str) {
        let named = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(named.path(), LOG).unwrap();
        let mut log = Log::open(named.path(), options.clone()).unwrap();
        assert_eq!(text(log.read().unwrap()), want, "{options:?}");
    }

    #[test]
    fn formats() {
        let base = Options::default;
        check(base(), "one\ntwo\nthree\n");
        check(Options { tail: Some(2), ..base() }, "three\n");
        check(Options { stream: Some("stderr".into()), ..base() }, "two\n");
        check(Options { since: "2026-01-01T00:00:03Z".parse().ok(), ..base() }, "three\n");
        check(Options { limit: Some(6), ..base() }, "one\ntw");
        check(
            Options { timestamps: true, ..base() },
            "2026-01-01T00:00:01Z one\n2026-01-01T00:00:02Z two\n2026-01-01T00:00:03Z three\n",
        );
    }

    #[test]
    fn log_follows_a_rotation_and_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let line = |text: &str| format!("2026-01-01T00:00:01Z stdout F {text}\n");
        std::fs::write(&path, line("one")).unwrap();
        let mut log = Log::open(&path, Options::default()).unwrap();
        assert_eq!(text(log.read().unwrap()), "one\n");
        assert_eq!(log.read().unwrap(), Seen::Nothing);
        let mut old = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut old, line("two").as_bytes()).unwrap();
        std::fs::rename(&path, dir.path().join("0.log.1")).unwrap();
        std::fs::write(&path, line("three")).unwrap();
        assert_eq!(text(log.read().unwrap()), "two\n");
        assert_eq!(text(log.read().unwrap()), "three\n");
    }

    #[test]
    fn log_says_when_the_limit_is_reached() {
        let named = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(named.path(), LOG).unwrap();
        let mut log = Log::open(named.path(), Options { limit: Some(2), ..Options::default() }).unwrap();
        assert_eq!(log.read().unwrap(), Seen::Last(b"on".to_vec()));
    }
}
