//! One container's log, read as it grows and from file to file when it is rotated. Blocks.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minik8s_telemetry::{LogRecord, LogSource, Severity};

use super::Records;
use crate::log_file::Line;

const CHUNK: usize = 64 << 10;
/// What is printed without an end of line is cut there.
const LONGEST: usize = 256 << 10;

pub struct LogReader {
    source: Arc<LogSource>,
    path: PathBuf,
    file: File,
    inode: u64,
    /// Up to where whole lines were read.
    offset: u64,
    /// The beginning of a line whose end is not there yet.
    rest: Vec<u8>,
    /// Of a text that the runtime has split.
    text: Vec<u8>,
}

/// What a look at the file has brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Looked {
    /// There may be more.
    More,
    /// All that is there was read.
    End,
    /// It is gone, and nothing of it is left to be read.
    Gone,
}

impl LogReader {
    /// `position`: the inode that was read, and how far. A log that was rotated since goes on with the file of that inode.
    pub fn open(path: &Path, source: Arc<LogSource>, position: Option<(u64, u64)>) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut inode = file.metadata()?.ino();
        let mut offset = 0;
        if let Some((known, read)) = position {
            if known != inode
                && let Some(old) = generations(path).into_iter().find(|old| inode_of(old) == Some(known))
            {
                file = File::open(old)?;
                inode = known;
            }
            // A file that is shorter than what was read of it is another one.
            offset = if known == inode && read <= file.metadata()?.len() { read } else { 0 };
        }
        file.seek(SeekFrom::Start(offset))?;
        let path = path.to_owned();
        Ok(LogReader { source, path, file, inode, offset, rest: Vec::new(), text: Vec::new() })
    }

    /// At its end: what is in it is not told of.
    pub fn skip(&mut self) -> io::Result<()> {
        self.offset = self.file.seek(SeekFrom::End(0))?;
        Ok(())
    }

    pub fn position(&self) -> (u64, u64) {
        (self.inode, self.offset)
    }

    /// Reads a piece. Ends early where the queue has no room.
    pub fn look(&mut self, queue: &Records) -> io::Result<Looked> {
        let start = self.rest.len();
        self.rest.resize(start + CHUNK, 0);
        let read = self.file.read(&mut self.rest[start..]);
        self.rest.truncate(start + *read.as_ref().unwrap_or(&0));
        if read? == 0 {
            return self.next_file();
        }
        let mut taken = 0;
        while let Some(length) = self.rest[taken..].iter().position(|byte| *byte == b'\n') {
            let line = taken..taken + length;
            if let Some(parsed) = Line::parse(&self.rest[line]) {
                tell(&parsed, &self.source, &mut self.text, queue);
            }
            taken += length + 1;
        }
        if taken == 0 && self.rest.len() >= LONGEST {
            // No line of a log: passed over.
            taken = self.rest.len();
        }
        self.rest.drain(..taken);
        self.offset += taken as u64;
        Ok(Looked::More)
    }

    /// Lines that nobody will read: counted, if the file is as large as a log may be.
    pub fn count_rest(&mut self) -> u64 {
        let mut rest = Vec::new();
        let read = self
            .file
            .seek(SeekFrom::Start(self.offset))
            .and_then(|_| Read::by_ref(&mut self.file).take(64 << 20).read_to_end(&mut rest));
        read.map_or(1, |_| rest.iter().filter(|byte| **byte == b'\n').count() as u64)
    }

    /// The file that was written after this one, if this one was put aside.
    fn next_file(&mut self) -> io::Result<Looked> {
        if inode_of(&self.path) == Some(self.inode) {
            return Ok(Looked::End);
        }
        let all = generations(&self.path);
        let at = all.iter().position(|path| inode_of(path) == Some(self.inode));
        let Some(next) = all.get(at.map_or(0, |at| at + 1)) else {
            // The runtime has not begun the next file yet, or there is nothing any more.
            return Ok(if at.is_some() { Looked::End } else { Looked::Gone });
        };
        self.file = File::open(next)?;
        self.inode = self.file.metadata()?.ino();
        (self.offset, self.rest) = (0, Vec::new());
        Ok(Looked::More)
    }
}

fn tell(line: &Line<'_>, source: &Arc<LogSource>, text: &mut Vec<u8>, queue: &Records) {
    let room = LONGEST.saturating_sub(text.len()).min(line.text.len());
    text.extend_from_slice(&line.text[..room]);
    if line.partial && text.len() < LONGEST {
        return;
    }
    let time = line.timestamp().and_then(|time| u64::try_from(time.as_nanosecond()).ok());
    let body = String::from_utf8_lossy(text).into_owned();
    text.clear();
    queue.push(LogRecord {
        source: source.clone(),
        time: time.unwrap_or_default(),
        stream: Some(if line.stream == "stderr" { "stderr" } else { "stdout" }),
        severity: Severity::Unspecified,
        body,
        attributes: Vec::new(),
    });
}

/// All files of a log that are there, the oldest first: rotated ones have the time in their name.
fn generations(path: &Path) -> Vec<PathBuf> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let prefix = format!("{name}.");
    let is_old = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&prefix);
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.filter(is_old).map(|entry| entry.path()).collect();
    all.sort();
    if path.exists() {
        all.push(path.to_owned());
    }
    all
}

fn inode_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.ino())
}
