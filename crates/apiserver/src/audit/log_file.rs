//! The log backend: one event a line, in a file that only its owner reads, with older files beside it by number.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct LogFile {
    path: PathBuf,
    file: Option<File>,
    size: u64,
    largest: u64,
    backups: usize,
    /// Older files are removed, if there is such an age.
    max_age: Option<Duration>,
}

impl LogFile {
    /// `-` is standard output.
    pub fn open(path: &Path, largest: u64, backups: usize, max_age: Option<Duration>) -> io::Result<Self> {
        let (file, size, largest) = (None, 0, largest.max(1));
        let mut log = LogFile { path: path.to_owned(), file, size, largest, backups, max_age };
        if path != Path::new("-") {
            log.reopen()?;
            log.remove_old()?;
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
        for number in (1..self.backups).rev() {
            match std::fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match self.backups {
            0 => std::fs::remove_file(&self.path)?,
            _ => std::fs::rename(&self.path, self.numbered(1))?,
        }
        self.remove_old()?;
        self.reopen()
    }

    /// The age of a file is that of its last line.
    fn remove_old(&self) -> io::Result<()> {
        let Some(max_age) = self.max_age else { return Ok(()) };
        for number in 1..=self.backups {
            let path = self.numbered(number);
            let written = match std::fs::metadata(&path).and_then(|metadata| metadata.modified()) {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if written.elapsed().is_ok_and(|age| age > max_age) {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    fn numbered(&self, number: usize) -> PathBuf {
        PathBuf::from(format!("{}.{number}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn log_is_put_aside_before_it_grows_too_large() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut log = LogFile::open(&path, 10, 2, None).unwrap();
        for line in ["first\n", "second\n", "third\n", "fourth\n"] {
            log.write(line.as_bytes()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!((read("audit.log").as_str(), read("audit.log.1").as_str()), ("fourth\n", "third\n"));
        assert_eq!(read("audit.log.2"), "second\n");
        assert!(!directory.path().join("audit.log.3").exists());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // What is there is kept.
        let mut log = LogFile::open(&path, 100, 2, None).unwrap();
        log.write(b"fifth\n").unwrap();
        assert_eq!(read("audit.log"), "fourth\nfifth\n");
    }

    #[test]
    fn files_put_aside_are_removed_at_their_age() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let day = Duration::from_secs(24 * 3600);
        let put_aside = |name: &str, days: u32| {
            let file = File::create(directory.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - day * days).unwrap();
        };
        let exist = || {
            let names = ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3"];
            names.map(|name| directory.path().join(name).exists())
        };
        put_aside("audit.log", 9);
        put_aside("audit.log.1", 1);
        put_aside("audit.log.2", 4);
        drop(LogFile::open(&path, 10, 5, None).unwrap());
        assert_eq!(exist(), [true, true, true, false]);
        // What is written to now stays, whatever its age.
        let mut log = LogFile::open(&path, 10, 5, Some(day * 3)).unwrap();
        assert_eq!(exist(), [true, true, false, false]);
        put_aside("audit.log.1", 4);
        log.write(b"first\n").unwrap();
        log.write(b"second\n").unwrap();
        assert_eq!(exist(), [true, true, false, false]);
        assert_eq!(std::fs::read_to_string(directory.path().join("audit.log.1")).unwrap(), "first\n");
    }
}
