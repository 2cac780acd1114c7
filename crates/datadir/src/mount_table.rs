//! What is mounted, as the kernel tells it.
//!
//! The table holds resolved paths only, so whoever compares must have resolved his. It is read anew each time, and a
//! table that cannot be read is an error, never an empty table.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

/// Of the calling thread: in a test it may have a mount namespace of its own.
const TABLE: &str = "/proc/thread-self/mountinfo";

/// Whether something is mounted on this very path. Asks the kernel, which knows it whatever the path is called.
pub fn is_mount_point(path: &Path) -> bool {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return path.has_root() };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let Ok(parent) = open(parent, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()) else { return false };
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_BENEATH);
    matches!(openat2(&parent, name, how), Err(Errno::EXDEV))
}

/// What is mounted at or below a resolved path, in the order in which it was mounted.
pub fn points_below(path: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(points(&fs::read(TABLE)?).into_iter().filter(|point| point.starts_with(path)).collect())
}

/// The fifth field of every line.
fn points(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescape).collect()
}

/// Spaces, tabs, newlines and backslashes are written as three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let octal = |digits: &[u8]| {
        let fits = digits.iter().all(|digit| (b'0'..=b'7').contains(digit));
        let value = || digits.iter().fold(0_u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
        fits.then(value).and_then(|value| u8::try_from(value).ok())
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        match (first, after.get(..3).and_then(octal)) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                rest = &after[3..];
            }
            _ => {
                out.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn mountinfo_escapes_are_undone() {
        let check =
            |text: &str, want: &[u8]| assert_eq!(unescape(text.as_bytes()).as_os_str().as_bytes(), want);
        check("/a/b", b"/a/b");
        check("/with\\040space", b"/with space");
        check("/back\\134slash", b"/back\\slash");
        check("/odd\\", b"/odd\\");
        check("/odd\\9", b"/odd\\9");
        check("/odd\\04", b"/odd\\04");
        check("/large\\777", b"/large\\777");
    }

    #[test]
    fn mountinfo_point_is_the_fifth_field() {
        let table = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n\n7 1 0:1 / /a\\040b rw - tmpfs t rw";
        assert_eq!(points(table), [PathBuf::from("/mnt2"), PathBuf::from("/a b")]);
    }

    #[test]
    fn proc_is_a_mount_point() {
        assert!(is_mount_point(Path::new("/proc")));
        assert!(is_mount_point(Path::new("/")));
        assert!(!is_mount_point(Path::new("/proc/self")));
        assert!(!is_mount_point(Path::new("/no/such/thing")));
        assert!(points_below(Path::new("/")).unwrap().contains(&PathBuf::from("/proc")));
    }
}
