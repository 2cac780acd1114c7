//! One file of the kernel that is read again and again.
//!
//! Looking a cgroup's file up costs several times as much as reading it, so the file stays open. An open file
//! under `/proc/PID/net` keeps a network namespace alive: whoever holds gauges lets go of them when the pod ends.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// More than any of the files has; what is longer is cut at the end of a line.
const LARGEST: usize = 16 << 10;

#[derive(Debug)]
pub struct Gauge {
    path: PathBuf,
    file: Option<File>,
}

/// Where the files' contents go, one after the other.
#[derive(Debug)]
pub struct Buffer(Vec<u8>);

impl Default for Buffer {
    fn default() -> Self {
        Buffer(vec![0; LARGEST])
    }
}

impl Gauge {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Gauge { path: path.into(), file: None }
    }

    /// What the file says now; `None` if it is gone. `keep` leaves it open for the next time.
    pub fn read<'b>(&mut self, buffer: &'b mut Buffer, keep: bool) -> Option<&'b str> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path).ok()?,
        };
        let length = file.read_at(&mut buffer.0, 0).ok()?;
        if keep {
            self.file = Some(file);
        }
        let text = std::str::from_utf8(&buffer.0[..length]).ok()?;
        Some(if length < LARGEST { text } else { &text[..text.rfind('\n')?] })
    }

    pub fn number(&mut self, buffer: &mut Buffer, keep: bool) -> Option<u64> {
        self.read(buffer, keep)?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("usage");
        let (mut gauge, mut buffer) = (Gauge::new(&path), Buffer::default());
        assert_eq!(gauge.number(&mut buffer, true), None, "not there yet");
        std::fs::write(&path, "12345\n").unwrap();
        assert_eq!(gauge.number(&mut buffer, true), Some(12345));
        std::fs::write(&path, "7\n").unwrap();
        assert_eq!(gauge.number(&mut buffer, false), Some(7), "nothing of the longer one is left");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(gauge.number(&mut buffer, true), None);
    }
}
