//! Gives a file another content so that nobody else's lines are ever lost: not by a kill, not on a full disk.
//!
//! A new file takes the place of the old one in one step. Where that cannot be, because the file is a mount of its own
//! as in containers, it is written in place: with the room for it reserved, only from where it differs, and with a copy
//! of the old content kept until all is done, from which [`recovered`] makes good what a crash cut off.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::unistd::{Gid, Uid, fchown};

use super::{lines, read};

const PUBLIC: u32 = 0o644;

/// False if the file is not what it was any more; then nothing is changed. A link stays a link.
/// The new one is first called after the writer: others may write in the same directory and hold another lock, as agents
/// in containers do.
pub fn by_rename(path: &Path, writer: &str, old: &[u8], new: &[u8]) -> io::Result<bool> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let temporary = beside(&target, writer);
    let done = write_new(&temporary, new, fs::metadata(&target).ok().as_ref()).and_then(|()| {
        let same = read(&target)? == old;
        if same {
            fs::rename(&temporary, &target)?;
        }
        Ok(same)
    });
    match done {
        Ok(true) => {
            // It is in place already; without this a power failure could bring the old one back, which is no harm.
            let _ = target
                .parent()
                .map(File::open)
                .transpose()
                .and_then(|dir| dir.map(|d| d.sync_all()).transpose());
        }
        _ => drop(fs::remove_file(&temporary)),
    }
    done
}

/// Whether the file cannot be replaced where it is, but perhaps be written.
pub fn is_fixed(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EBUSY | Errno::EXDEV | Errno::EROFS | Errno::EACCES | Errno::EPERM))
}

/// Writes into the file itself, with a copy of the old content in `kept` meanwhile.
pub fn in_place(path: &Path, kept: &Path, old: &[u8], new: &[u8]) -> io::Result<()> {
    let temporary = beside(kept, "new");
    // Without a copy the file is not touched.
    let copied = write_new(&temporary, old, None).and_then(|()| fs::rename(&temporary, kept));
    if let Err(error) = copied {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    overwrite(path, old, new)?;
    fs::remove_file(kept)
}

/// From the first byte that differs. What is to be cut off becomes empty lines first: a crash in between leaves nothing
/// that means anything.
pub fn overwrite(path: &Path, old: &[u8], new: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    reserve(&file, new.len())?;
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let mut tail = new[same..].to_vec();
    tail.resize(tail.len().max(old.len() - same), b'\n');
    let written = file.write_all_at(&tail, same as u64);
    let written = written.and_then(|()| file.set_len(new.len() as u64)).and_then(|()| file.sync_all());
    if written.is_err() {
        // As it was, as far as this can be had.
        let _ = file.write_all_at(&old[same..], same as u64).and_then(|()| file.set_len(old.len() as u64));
    }
    written
}

/// On a full disk this fails, before anything is changed. Some file systems cannot tell.
fn reserve(file: &File, length: usize) -> io::Result<()> {
    let length = i64::try_from(length).unwrap_or(i64::MAX).max(1);
    match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, length) {
        Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL | Errno::ENODEV) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// A new file, whole on disk, with owner and mode of the old one.
fn write_new(path: &Path, content: &[u8], like: Option<&fs::Metadata>) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    if let Some(like) = like {
        fchown(&file, Some(Uid::from_raw(like.uid())), Some(Gid::from_raw(like.gid())))?;
    }
    let mode = like.map_or(PUBLIC, |like| like.permissions().mode() & 0o7777);
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

fn beside(path: &Path, writer: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.minik8s-{writer}"))
}

/// What the file should be: all that was kept, and whatever somebody has added since. If nothing of others is missing,
/// the file is right as it is. `foreign` leaves out what is ours.
pub fn recovered(kept: &[u8], now: &[u8], foreign: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let (before, after) = (foreign(kept), foreign(now));
    let has =
        |text: &[u8], line: &[u8]| lines(text).any(|other| other.trim_ascii_end() == line.trim_ascii_end());
    if lines(&before).all(|line| has(&after, line)) {
        return now.to_vec();
    }
    let mut whole = kept.to_vec();
    for line in lines(&after).filter(|line| is_entry(line) && !has(&before, line)) {
        if !whole.is_empty() && !whole.ends_with(b"\n") {
            whole.push(b'\n');
        }
        whole.extend_from_slice(line);
    }
    whole
}

/// An address and names: what a cut leaves of a line is rarely one.
fn is_entry(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let mut words = text.split_whitespace();
    line.ends_with(b"\n")
        && words.next().is_some_and(|word| word.parse::<IpAddr>().is_ok())
        && words.next().is_some()
}
