//! Who works with a data dir: a server, an agent, nobody. The lock ends with its process, however that ends.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use thiserror::Error;

/// A process that was killed while it started another leaves the lock with that one, until it is the other program.
const LAST_CHILD: Duration = Duration::from_secs(2);

/// A process that holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupant {
    Server,
    Agent,
}

#[derive(Debug, Error)]
pub enum LockError {
    #[error("another {occupant} runs with the data dir {}{}", data_dir.display(), named(*pid))]
    Held { occupant: Occupant, data_dir: PathBuf, pid: Option<i32> },
    #[error("cannot lock {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Occupant {
    fn path(self, data_dir: &Path) -> PathBuf {
        data_dir.join(match self {
            Occupant::Server => "server.lock",
            Occupant::Agent => "agent.lock",
        })
    }
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Occupant::Server => "server",
            Occupant::Agent => "agent",
        })
    }
}

fn named(pid: Option<i32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

/// Takes the data dir for this process. Held as long as the value lives; the file names the process.
pub fn lock(data_dir: &Path, occupant: Occupant) -> Result<Flock<File>, LockError> {
    let path = occupant.path(data_dir);
    let begun = Instant::now();
    let mut lock = loop {
        let failed = |source| LockError::Io { path: path.clone(), source };
        let open =
            OpenOptions::new().create(true).truncate(false).write(true).read(true).mode(0o600).open(&path);
        let mut file = match Flock::lock(open.map_err(failed)?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => break lock,
            Err((file, _)) => file,
        };
        let mut text = String::new();
        let _ = file.read_to_string(&mut text);
        let pid = text.trim().parse().ok();
        if !pid.is_some_and(is_gone) || begun.elapsed() > LAST_CHILD {
            return Err(LockError::Held { occupant, data_dir: data_dir.to_owned(), pid });
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    // On a full disk it is held all the same, by a process without a name.
    let _ = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));
    Ok(lock)
}

fn is_gone(pid: i32) -> bool {
    !Path::new("/proc").join(pid.to_string()).exists()
}

/// Fails if a server or an agent works with the data dir, and keeps them away as long as the value lives.
pub fn vacant(data_dir: &Path) -> Result<Vec<Flock<File>>, LockError> {
    let both = [Occupant::Server, Occupant::Agent].into_iter();
    // Who never was there has no file, and none is made only to look.
    both.filter(|occupant| occupant.path(data_dir).exists())
        .map(|occupant| lock(data_dir, occupant))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_names_its_holder_and_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        vacant(dir.path()).unwrap();
        let held = lock(dir.path(), Occupant::Agent).unwrap();
        lock(dir.path(), Occupant::Server).unwrap();
        let error = vacant(dir.path()).unwrap_err();
        assert!(matches!(error, LockError::Held { pid: Some(pid), .. } if pid == std::process::id() as i32));
        assert!(error.to_string().contains("another agent runs"), "{error}");
        drop(held);
        vacant(dir.path()).unwrap();
    }

    #[test]
    fn lock_of_a_killed_process_comes_free_with_its_last_child() {
        let dir = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let mut held = lock(dir.path(), Occupant::Agent).unwrap();
        held.set_len(0).unwrap();
        std::io::Seek::rewind(&mut *held).unwrap();
        write!(held, "{}", gone.id()).unwrap();
        let child = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(held);
        });
        lock(dir.path(), Occupant::Agent).unwrap();
        child.join().unwrap();
    }
}
