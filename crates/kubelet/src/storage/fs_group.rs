//! Gives the files of a volume to the pod's `fsGroup`, as Kubernetes does: the group may read and write, and what is made
//! later belongs to it too.
//!
//! Pods may change the tree meanwhile. So it is walked by descriptors, links are not followed, and nothing outside the
//! volume is ever changed. Only the volume's own path may be a link: whoever made the volume wrote it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstatat};
use nix::unistd::{Gid, fchownat};

const SET_GROUP: u32 = 0o2000;
const FILE: u32 = 0o660;
const DIRECTORY: u32 = 0o770 | SET_GROUP;

/// With `only_mismatch`, nothing if the root of the volume is as it should be (`OnRootMismatch`).
pub fn apply(volume: &Path, group: u32, only_mismatch: bool) -> io::Result<()> {
    let root = fs::metadata(volume)?;
    let is_right = root.gid() == group && root.mode() & DIRECTORY == DIRECTORY;
    if only_mismatch && is_right {
        return Ok(());
    }
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let opened = nix::fcntl::open(volume, flags, Mode::empty())?;
    // Last, so that one who dies in between does it all again.
    children(&opened, group)?;
    own(&opened, root.mode() | DIRECTORY, group)
}

fn children(dir: &OwnedFd, group: u32) -> io::Result<()> {
    // The way through /proc leads to the descriptor itself.
    for entry in fs::read_dir(format!("/proc/self/fd/{}", dir.as_raw_fd()))? {
        let name = entry?.file_name();
        let known: FileStat = match fstatat(dir, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(known) => known,
            // Somebody was quicker.
            Err(nix::errno::Errno::ENOENT) => continue,
            Err(errno) => return Err(errno.into()),
        };
        let kind = known.st_mode & SFlag::S_IFMT.bits();
        let is_dir = kind == SFlag::S_IFDIR.bits();
        if !is_dir && kind != SFlag::S_IFREG.bits() {
            fchownat(dir, name.as_os_str(), None, Some(Gid::from_raw(group)), AtFlags::AT_SYMLINK_NOFOLLOW)?;
            continue;
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let child = match openat(dir, name.as_os_str(), flags, Mode::empty()) {
            Ok(child) => child,
            Err(nix::errno::Errno::ENOENT | nix::errno::Errno::ELOOP) => continue,
            Err(errno) => return Err(errno.into()),
        };
        if is_dir {
            children(&child, group)?;
        }
        own(&child, known.st_mode | if is_dir { DIRECTORY } else { FILE }, group)?;
    }
    Ok(())
}

/// The mode after the owner: a change of the owner takes the set-group bit away.
fn own(file: &OwnedFd, mode: u32, group: u32) -> io::Result<()> {
    nix::unistd::fchown(file.as_fd(), None, Some(Gid::from_raw(group)))?;
    Ok(fchmod(file.as_fd(), Mode::from_bits_truncate(mode & 0o7777))?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn volume_belongs_to_the_group_and_nothing_else_does() {
        assert!(nix::unistd::Uid::effective().is_root(), "this test changes owners, and needs root");
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("volume");
        fs::create_dir_all(volume.join("a/b")).unwrap();
        fs::write(volume.join("a/b/file"), "x").unwrap();
        fs::write(dir.path().join("outside"), "x").unwrap();
        symlink(dir.path().join("outside"), volume.join("a/link")).unwrap();
        fs::set_permissions(volume.join("a/b/file"), fs::Permissions::from_mode(0o600)).unwrap();
        let look = |path: &Path| fs::metadata(path).map(|m| (m.gid(), m.mode() & 0o7777)).unwrap();
        let outside = look(&dir.path().join("outside"));
        apply(&volume, 1234, false).unwrap();
        assert_eq!(look(&volume.join("a/b/file")), (1234, 0o660));
        assert_eq!(look(&volume.join("a/b")), (1234, 0o2775));
        assert_eq!(look(&volume), (1234, 0o2775));
        assert_eq!(look(&dir.path().join("outside")), outside);
        fs::set_permissions(volume.join("a/b/file"), fs::Permissions::from_mode(0o600)).unwrap();
        apply(&volume, 1234, true).unwrap();
        assert_eq!(look(&volume.join("a/b/file")).1, 0o600, "the root was right");
        apply(&volume, 5678, true).unwrap();
        assert_eq!(look(&volume.join("a/b/file")), (5678, 0o660));
        // A local volume may be named by a link.
        let linked = dir.path().join("linked");
        symlink(&volume, &linked).unwrap();
        apply(&linked, 4321, true).unwrap();
        assert_eq!((look(&volume.join("a/b/file")), look(&volume).0), ((4321, 0o660), 4321));
        assert_eq!(look(&dir.path().join("outside")), outside);
    }
}
