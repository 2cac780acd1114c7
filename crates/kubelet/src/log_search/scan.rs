//! Reads log files block by block and keeps the lines that are wanted. A text that the runtime has split is looked at in its
//! parts.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use jiff::Timestamp;

use super::find::{Log, LogFile};
use super::{FoundLine, Newest, Search, is_too_old};
use crate::log_file::Line;

const BLOCK: usize = 256 << 10;
/// A line that is longer is none.
const LONGEST_LINE: usize = 1 << 20;

pub struct Scan<'a> {
    search: &'a Search,
    deadline: Instant,
    pub found: Newest,
    pub bytes: u64,
    /// Not everything was read in time.
    pub is_late: bool,
    block: Vec<u8>,
}

impl<'a> Scan<'a> {
    pub fn new(search: &'a Search, deadline: Instant) -> Self {
        let found = Newest::new(search.limit);
        Scan { search, deadline, found, bytes: 0, is_late: false, block: Vec::new() }
    }

    /// A file that cannot be read, or was cut, is read as far as it goes.
    pub fn read(&mut self, log: &Log) {
        if is_too_old(&log.file.path, self.search.since) {
            return;
        }
        let read = match open(&log.file, self.search.since) {
            Ok(mut file) => self.lines_of(&mut *file, log),
            Err(error) => Err(error),
        };
        if let Err(error) = read {
            tracing::debug!(%error, file = %log.file.path.display(), "a log cannot be read to its end");
        }
    }

    fn lines_of(&mut self, file: &mut dyn Read, log: &Log) -> io::Result<()> {
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        loop {
            if Instant::now() > self.deadline {
                self.is_late = true;
                break;
            }
            let start = block.len();
            block.resize(start + BLOCK, 0);
            let read = file.read(&mut block[start..])?;
            block.truncate(start + read);
            self.bytes += read as u64;
            let whole = block.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let goes_on = self.whole_lines(&block[..whole], log);
            block.drain(..whole);
            if read == 0 || !goes_on {
                break;
            }
            if block.len() > LONGEST_LINE {
                block.clear();
            }
        }
        self.block = block;
        Ok(())
    }

    /// False where all that follows is too new.
    fn whole_lines(&mut self, lines: &[u8], log: &Log) -> bool {
        let mut from = 0;
        while let Some(at) = self.search.matcher.next(lines, from) {
            let start = lines[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let end = lines[at..].iter().position(|byte| *byte == b'\n').map_or(lines.len(), |end| at + end);
            // A match may begin before the line at which the search goes on, but never in one that was looked at.
            from = end + 1;
            if !self.line(&lines[start.min(end)..end], log) {
                return false;
            }
        }
        true
    }

    fn line(&mut self, line: &[u8], log: &Log) -> bool {
        let Some(parsed) = Line::parse(line) else { return true };
        if !self.search.matcher.takes(parsed.text) {
            return true;
        }
        let Some(time) = parsed.timestamp() else { return true };
        if self.search.until.is_some_and(|until| time > until) {
            return false;
        }
        if self.search.since.is_some_and(|since| time < since) || !self.found.wants(time) {
            return true;
        }
        self.found.push(FoundLine {
            time,
            place: log.place.clone(),
            stream: if parsed.stream == "stderr" { "stderr" } else { "stdout" },
            text: String::from_utf8_lossy(parsed.text).into_owned(),
        });
        true
    }
}

fn open(log: &LogFile, since: Option<Timestamp>) -> io::Result<Box<dyn Read>> {
    let mut file = File::open(&log.path)?;
    if log.is_compressed {
        return Ok(Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(BLOCK, file))));
    }
    if let Some(since) = since {
        let start = offset_since(&mut file, since)?;
        file.seek(SeekFrom::Start(start))?;
    }
    Ok(Box::new(file))
}

/// An offset before which all lines are too old: lines of a file are in order. It may be in the middle of a line, which is
/// then no line.
fn offset_since(file: &mut File, since: Timestamp) -> io::Result<u64> {
    let (mut low, mut high) = (0, file.metadata()?.len());
    let mut piece = vec![0; 64 << 10];
    while high - low > piece.len() as u64 * 2 {
        let middle = low + (high - low) / 2;
        file.seek(SeekFrom::Start(middle))?;
        let length = file.read(&mut piece)?;
        let Some(begin) = piece[..length].iter().position(|byte| *byte == b'\n') else { break };
        let rest = &piece[begin + 1..length];
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let Some(time) = Line::parse(line).and_then(|line| line.timestamp()) else { break };
        match time < since {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(low)
}
