//! What is mounted on the node.

use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, umount2};
use tracing::warn;

pub fn is_mount_point(path: &Path) -> bool {
    mount_points().iter().any(|point| point == path)
}

/// Unmounts everything at or below a directory, the innermost first.
pub fn unmount_below(dir: &Path) {
    let points = mount_points().into_iter().filter(|point| point.starts_with(dir));
    for point in points.collect::<Vec<_>>().into_iter().rev() {
        if let Err(error) = umount2(&point, MntFlags::MNT_DETACH) {
            warn!(%error, ?point, "cannot unmount");
        }
    }
}

/// In the order in which they were mounted.
fn mount_points() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(unescape).collect()
}

/// Spaces, tabs, newlines and backslashes are written as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    PathBuf::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        let check = |text: &str, want: &str| assert_eq!(unescape(text), PathBuf::from(want));
        check("/a/b", "/a/b");
        check("/with\\040space", "/with space");
        check("/odd\\", "/odd\\");
        check("/odd\\9", "/odd\\9");
    }

    #[test]
    fn proc_is_mounted() {
        assert!(is_mount_point(Path::new("/proc")));
        assert!(!is_mount_point(Path::new("/proc/self")));
    }
}
