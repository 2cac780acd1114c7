//! The log backend: one event a line, in a file that only its owner reads, with older files beside it by number.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub struct LogFile {
    path: PathBuf,
    file: Option<File>,
    size: u64,
    largest: u64,
    backups: usize,
}

impl LogFile {
    /// `-` is standard output.
    pub fn open(path: &Path, largest: u64, backups: usize) -> io::Result<Self> {
        let mut log =
            LogFile { path: path.to_owned(), file: None, size: 0, largest: largest.max(1), backups };
        if path != Path::new("-") {
            log.reopen()?;
        }
        Ok(log)
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    /// Writes lines; a file that would become too large is put aside before.
    pub fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.path == Path::new("-") {
            return io::stdout().lock().write_all(lines);
        }
        if self.size > 0 && self.size + lines.len() as u64 > self.largest {
            self.rotate()?;
        }
        if self.file.is_none() {
            self.reopen()?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(lines)?;
            self.size += lines.len() as u64;
        }
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let numbered = |number: usize| PathBuf::from(format!("{}.{number}", self.path.display()));
        for number in (1..self.backups).rev() {
            match std::fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match self.backups {
            0 => std::fs::remove_file(&self.path)?,
            _ => std::fs::rename(&self.path, numbered(1))?,
        }
        self.reopen()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn log_is_put_aside_before_it_grows_too_large() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut log = LogFile::open(&path, 10, 2).unwrap();
        for line in ["first\n", "second\n", "third\n", "fourth\n"] {
            log.write(line.as_bytes()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!((read("audit.log").as_str(), read("audit.log.1").as_str()), ("fourth\n", "third\n"));
        assert_eq!(read("audit.log.2"), "second\n");
        assert!(!directory.path().join("audit.log.3").exists());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // What is there is kept.
        let mut log = LogFile::open(&path, 100, 2).unwrap();
        log.write(b"fifth\n").unwrap();
        assert_eq!(read("audit.log"), "fourth\nfifth\n");
    }
}
