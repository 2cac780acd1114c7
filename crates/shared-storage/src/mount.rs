//! Mounts of the file system, each kept by a process of its own that outlives the agent; binds of them for pods.

use std::fs;
use std::path::Path;

use minik8s_datadir::is_mount_point;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::statvfs;

use crate::SharedError;
use crate::daemon::at;
use crate::engine::Engine;
use crate::moosefs::CLIENT;
use crate::part::Part;
use crate::program::run;

/// How the kernel's table of mounts begins the lines of this file system; it writes `#` as `\043`.
const SOURCES: [&str; 2] = ["mfs#", "mfs\\043"];

/// Mounts a directory of the file system. One whose process has died is mounted again.
pub fn bring(
    engine: &dyn Engine,
    part: &Part,
    directory: &str,
    to: &Path,
    options: &[String],
) -> Result<(), SharedError> {
    if is_mount_point(to) {
        if !is_broken(to) {
            return Ok(());
        }
        umount2(to, MntFlags::MNT_DETACH).map_err(std::io::Error::from)?;
    }
    fs::create_dir_all(to).map_err(at(to))?;
    let command = engine.mount(part, directory, to, options);
    let (program, arguments) = command.split_first().ok_or(SharedError::NotSetUp)?;
    run(program, CLIENT, arguments).map(drop)
}

/// Whether nobody is behind a mount any more.
fn is_broken(path: &Path) -> bool {
    statvfs(path).is_err_and(is_of_dead_process)
}

pub fn is_of_dead_process(error: Errno) -> bool {
    matches!(error, Errno::ENOTCONN | Errno::ECONNABORTED | Errno::EIO)
}

/// A part of the tree at another place.
pub fn bind(from: &Path, to: &Path, is_read_only: bool) -> Result<(), SharedError> {
    if is_mount_point(to) {
        if !is_broken(to) {
            return Ok(());
        }
        umount2(to, MntFlags::MNT_DETACH).map_err(std::io::Error::from)?;
    }
    // The directory below would be the node's own, and what pods write there seen by nobody else.
    if !is_mount_point(from) {
        return Err(SharedError::NotStaged(from.to_owned()));
    }
    fs::create_dir_all(to).map_err(at(to))?;
    let none = None::<&str>;
    mount(Some(from), to, none, MsFlags::MS_BIND, none).map_err(std::io::Error::from)?;
    if is_read_only {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(none, to, none, flags, none).map_err(std::io::Error::from)?;
    }
    Ok(())
}

/// Its process ends by itself.
pub fn put_away(path: &Path) -> Result<(), SharedError> {
    if !is_mount_point(path) {
        return Ok(());
    }
    let flags = if is_broken(path) { MntFlags::MNT_DETACH } else { MntFlags::empty() };
    Ok(umount2(path, flags).map_err(std::io::Error::from)?)
}

/// The same without asking its servers anything: they may be away.
pub fn let_go(path: &Path) -> Result<(), SharedError> {
    match is_mount_point(path) {
        true => Ok(umount2(path, MntFlags::MNT_DETACH).map_err(std::io::Error::from)?),
        false => Ok(()),
    }
}

/// Cuts all mounts of such file systems in the data dir off, whoever waits in them.
pub fn cut_off(data_dir: &Path) -> Result<(), SharedError> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    for point in fuse_mounts(&mounts).filter(|point| point.starts_with(data_dir)) {
        umount2(point, MntFlags::MNT_FORCE | MntFlags::MNT_DETACH).map_err(std::io::Error::from)?;
    }
    Ok(())
}

fn fuse_mounts(mounts: &str) -> impl Iterator<Item = &Path> {
    mounts.lines().rev().filter_map(|line| {
        let mut fields = line.split(' ');
        let (source, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        let is_its = kind.starts_with("fuse") && SOURCES.iter().any(|start| source.starts_with(start));
        is_its.then_some(Path::new(point))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_that_is_not_staged_is_not_published() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("globalmount"), dir.path().join("mount"));
        fs::create_dir(&from).unwrap();
        assert!(matches!(bind(&from, &to, false), Err(SharedError::NotStaged(_))));
        assert!(!to.exists());
    }

    #[test]
    fn mounts_of_others_are_left_alone() {
        let mounts = "a /d/x ext4 rw 0 0\nmfs\\04310.0.0.1:9421 /d/y fuse rw 0 0\nb /d/z fuse.sshfs rw 0 0\n";
        assert_eq!(fuse_mounts(mounts).collect::<Vec<_>>(), [Path::new("/d/y")]);
    }
}
