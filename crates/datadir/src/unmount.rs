//! Unmounts what pods left in the data dir.
//!
//! What cannot be unmounted is an error: whoever wants to remove the directory must stop then, and come again.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use thiserror::Error;

use crate::mount_table::points_below;
use crate::resolve;

#[derive(Debug, Error)]
pub enum UnmountError {
    #[error("cannot unmount {}: {errno}", point.display())]
    Refused { point: PathBuf, errno: Errno },
    #[error("cannot tell what is mounted below {}: {source}", path.display())]
    Table { path: PathBuf, source: io::Error },
}

/// Unmounts everything at or below a directory, the last mounted first. Tries all of it, and tells the first that
/// stayed.
pub fn unmount_below(dir: &Path) -> Result<(), UnmountError> {
    unmount_each(dir, |_| true, detach)
}

/// The same without the directory itself, which can be a disk that somebody has put there.
pub fn unmount_inside(dir: &Path) -> Result<(), UnmountError> {
    let resolved = resolve(dir).map_err(|source| UnmountError::Table { path: dir.to_owned(), source })?;
    unmount_each(dir, |point| point != resolved, detach)
}

fn detach(point: &Path) -> Result<(), Errno> {
    umount2(point, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW)
}

fn unmount_each(
    dir: &Path,
    wanted: impl Fn(&Path) -> bool,
    umount: impl Fn(&Path) -> Result<(), Errno>,
) -> Result<(), UnmountError> {
    let table = |source| UnmountError::Table { path: dir.to_owned(), source };
    let resolved = resolve(dir).map_err(table)?;
    let mut refused = None;
    let points = || points_below(&resolved).map_err(table).map(|all| all.into_iter().filter(|p| wanted(p)));
    for point in points()?.rev() {
        match umount(&point) {
            // Somebody else was quicker.
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
            Err(errno) => refused = refused.or(Some(UnmountError::Refused { point, errno })),
        }
    }
    // An error that was passed over must not be taken for success.
    let left = points()?.next().map(|point| UnmountError::Refused { point, errno: Errno::EBUSY });
    refused.or(left).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmount_that_is_refused_is_an_error() {
        for errno in [Errno::EBUSY, Errno::EPERM, Errno::EINVAL, Errno::ENOENT] {
            let error = unmount_each(Path::new("/proc"), |_| true, |_| Err(errno)).unwrap_err();
            assert!(error.to_string().starts_with("cannot unmount /proc"), "{error}");
        }
        let error = unmount_each(Path::new("/proc"), |_| true, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("/proc"), "success that changes nothing is none: {error}");
    }

    #[test]
    fn unmount_where_nothing_is_mounted_asks_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        unmount_each(dir.path(), |_| true, |_| Err(Errno::EPERM)).unwrap();
        unmount_each(&dir.path().join("none"), |_| true, |_| Err(Errno::EPERM)).unwrap();
    }
}
