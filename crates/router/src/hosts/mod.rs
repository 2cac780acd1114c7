//! A block of our own in the node's hosts file, so that the node itself resolves the names of DNS objects.
//!
//! Everything outside the block stays as it is, byte by byte, whatever happens while it is written ([`replace`]). Other
//! agents on the machine take turns.

mod replace;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// Held by the agent that writes.
const LOCK: &str = "/run/minik8s/hosts.lock";
/// How often somebody else may change the file while it is written.
const ATTEMPTS: usize = 5;

#[derive(Debug, Clone)]
pub struct HostsFile {
    path: PathBuf,
    instance: String,
    /// Where the old content is kept while the file is written in place.
    kept: PathBuf,
}

impl HostsFile {
    pub fn new(path: &Path, instance: &str, kept: &Path) -> Self {
        HostsFile { path: path.to_owned(), instance: instance.to_owned(), kept: kept.to_owned() }
    }

    /// These names lead to that address, and no others of ours. Writes only what changes.
    pub fn write(&self, names: &BTreeSet<String>, address: IpAddr) -> io::Result<()> {
        let _turn = turn();
        self.recover()?;
        for _ in 0..ATTEMPTS {
            let old = read(&self.path)?;
            let new = with_block(&old, &self.instance, names, address);
            if new == old {
                return Ok(());
            }
            match replace::by_rename(&self.path, &self.instance, &old, &new) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if replace::is_fixed(&error) => {
                    return replace::in_place(&self.path, &self.kept, &old, &new);
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("somebody else keeps changing it"))
    }

    /// Puts back what a write in place lost that was cut short.
    fn recover(&self) -> io::Result<()> {
        let kept = match fs::read(&self.kept) {
            Ok(kept) => kept,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let now = read(&self.path)?;
        let whole = replace::recovered(&kept, &now, |text| without_block(text, &self.instance));
        if whole != now {
            tracing::warn!("{} was cut short: putting back what it held", self.path.display());
            replace::overwrite(&self.path, &now, &whole)?;
        }
        fs::remove_file(&self.kept)
    }
}

/// Removes the block of a stopped agent; where there is none it does nothing.
pub fn tear_down(path: &Path, instance: &str, kept: &Path) {
    let file = HostsFile::new(path, instance, kept);
    if let Err(error) = file.write(&BTreeSet::new(), IpAddr::from([0, 0, 0, 0])) {
        tracing::warn!(%error, "cannot remove minik8s' names from {}", path.display());
    }
}

/// `None` where it cannot be had: names are worth more than the order of writers.
fn turn() -> Option<Flock<File>> {
    let lock = Path::new(LOCK);
    fs::create_dir_all(lock.parent()?).ok()?;
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(lock).ok()?;
    Flock::lock(file, FlockArg::LockExclusive).ok()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// Lines of a file, with their ends.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

fn without_block(text: &[u8], instance: &str) -> Vec<u8> {
    let (begin, end) = marks(instance);
    let mut rest = Vec::with_capacity(text.len());
    let mut inside = false;
    for line in lines(text) {
        match line.trim_ascii_end() {
            mark if mark == begin.as_bytes() => inside = true,
            mark if mark == end.as_bytes() => inside = false,
            _ if !inside => rest.extend_from_slice(line),
            _ => {}
        }
    }
    // A block without an end was cut off by a crash, and what follows it may be somebody else's.
    if inside { keep_after_torn_block(text, &begin, &end) } else { rest }
}

/// Of a block that nobody ended only lines of its own kind go: its one address, and a single name.
fn keep_after_torn_block(text: &[u8], begin: &str, end: &str) -> Vec<u8> {
    let mut rest = Vec::with_capacity(text.len());
    // `None` outside, the address as soon as there is one.
    let mut inside: Option<Option<&[u8]>> = None;
    for line in lines(text) {
        let plain = line.trim_ascii_end();
        if plain == begin.as_bytes() {
            inside = Some(None);
            continue;
        }
        if plain == end.as_bytes() {
            inside = None;
            continue;
        }
        let words: Vec<_> = plain.split(|byte| *byte == b' ').collect();
        inside = match (inside, &words[..]) {
            (Some(known), [address, _]) if known.is_none_or(|known| known == *address) => Some(Some(address)),
            _ => None,
        };
        if inside.is_none() {
            rest.extend_from_slice(line);
        }
    }
    rest
}

fn with_block(old: &[u8], instance: &str, names: &BTreeSet<String>, address: IpAddr) -> Vec<u8> {
    let mut new = without_block(old, instance);
    if names.is_empty() {
        return new;
    }
    if !new.is_empty() && !new.ends_with(b"\n") {
        new.push(b'\n');
    }
    let (begin, end) = marks(instance);
    let lines: String = names.iter().map(|name| format!("{address} {name}\n")).collect();
    new.extend_from_slice(format!("{begin}\n{lines}{end}\n").as_bytes());
    new
}

fn marks(instance: &str) -> (String, String) {
    (format!("# BEGIN minik8s-{instance}"), format!("# END minik8s-{instance}"))
}

#[cfg(test)]
mod tests;
