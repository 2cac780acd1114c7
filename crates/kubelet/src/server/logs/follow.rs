//! Reads a log file to its end and, if wanted, beyond.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::Options;
use super::line::Line;
use super::tail::tail_offset;
use crate::cri::Runtime;

/// A follower looks for new lines this often at first, and less often while there are none.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
const STATE_CHECK: Duration = Duration::from_secs(1);
const LONGEST_LINE: u64 = 1 << 20;
const CHUNK: usize = 32 << 10;

pub struct Reader {
    pub runtime: Arc<dyn Runtime>,
    pub uid: String,
    pub id: String,
    pub path: PathBuf,
    pub options: Options,
}

impl Reader {
    /// Sends the log until it ends, the reader goes away, or the limit is reached.
    pub async fn run(self, sender: mpsc::Sender<Bytes>) {
        // A log that cannot be read is an empty one: the container may just have been removed.
        let Ok(mut log) = Log::open(&self.path, self.options.tail) else { return };
        let mut format = Format { options: &self.options, sent: 0, continued: false };
        let mut pause = FIRST_PAUSE;
        let mut checked = Instant::now();
        let mut ended = false;
        loop {
            let Ok(chunk) = log.read(&mut format) else { return };
            if !chunk.is_empty() {
                pause = FIRST_PAUSE;
                if sender.send(chunk.into()).await.is_err() {
                    return;
                }
                if format.is_full() {
                    return;
                }
                continue;
            }
            if !self.options.follow || ended {
                return;
            }
            if log.was_rotated(&self.path) {
                match Log::open(&self.path, None) {
                    Ok(new) => log = new,
                    Err(_) => return,
                }
                continue;
            }
            if checked.elapsed() >= STATE_CHECK || sender.is_closed() {
                checked = Instant::now();
                // One more round after the end: the last lines may have come in between.
                ended = !self.is_running().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = sender.closed() => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn is_running(&self) -> bool {
        match self.runtime.pod(&self.uid).await {
            Ok(pod) => pod.containers.iter().any(|c| c.id == self.id && c.is_running()),
            // containerd is away; the container is not.
            Err(_) => true,
        }
    }
}

/// An open log file, always positioned at the beginning of a line.
struct Log {
    file: BufReader<File>,
    inode: u64,
    line: Vec<u8>,
}

impl Log {
    fn open(path: &PathBuf, tail: Option<u64>) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let start = match tail {
            Some(lines) => tail_offset(&mut file, lines)?,
            None => 0,
        };
        file.seek(SeekFrom::Start(start))?;
        let inode = file.metadata()?.ino();
        Ok(Log { file: BufReader::with_capacity(CHUNK, file), inode, line: Vec::new() })
    }

    /// The next formatted lines; nothing at the end of the file.
    fn read(&mut self, format: &mut Format<'_>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        while out.len() < CHUNK && !format.is_full() {
            let mut limited = io::Read::take(&mut self.file, LONGEST_LINE);
            let read = limited.read_until(b'\n', &mut self.line)?;
            let complete = self.line.ends_with(b"\n") || self.line.len() as u64 >= LONGEST_LINE;
            if read == 0 || !complete {
                // Half a line stays until its other half is written.
                break;
            }
            format.append(&self.line, &mut out);
            self.line.clear();
        }
        Ok(out)
    }

    fn was_rotated(&self, path: &PathBuf) -> bool {
        std::fs::metadata(path).is_ok_and(|metadata| metadata.ino() != self.inode)
    }
}

/// Turns lines of the file into what the user sees.
struct Format<'a> {
    options: &'a Options,
    sent: u64,
    /// The line before was partial: this one goes on without a time of its own.
    continued: bool,
}

impl Format<'_> {
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

    fn check(options: Options, want: &str) {
        let named = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(named.path(), LOG).unwrap();
        let mut log = Log::open(&named.path().to_owned(), options.tail).unwrap();
        let mut format = Format { options: &options, sent: 0, continued: false };
        let text = String::from_utf8(log.read(&mut format).unwrap()).unwrap();
        assert_eq!(text, want, "{options:?}");
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
}
