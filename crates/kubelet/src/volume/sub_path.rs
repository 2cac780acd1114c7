//! subPath: a part of a volume, as a mount of its own.
//!
//! The volume's content belongs to the pod, which may put links there that point out of it. So the path is
//! opened beneath the volume by the kernel, and what was opened is bound to a place that the pod cannot reach.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use minik8s_datadir::is_mount_point;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, fstat, mkdirat};
use thiserror::Error;

const FLAGS: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);

#[derive(Debug, Error)]
pub enum SubPathError {
    #[error("subPath {0:?} must be relative and must not contain '..'")]
    Invalid(String),
    #[error("cannot use subPath {path:?}: {source}")]
    Io { path: String, source: io::Error },
}

/// Binds `volume/path` to `target` and returns `target`.
pub fn bind(volume: &Path, path: &str, target: PathBuf) -> Result<PathBuf, SubPathError> {
    let relative = Path::new(path);
    if relative.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(SubPathError::Invalid(path.to_owned()));
    }
    let failed = |source: io::Error| SubPathError::Io { path: path.to_owned(), source };
    if is_mount_point(&target) {
        return Ok(target);
    }
    let file = open_beneath(volume, relative).map_err(|e| failed(e.into()))?;
    let opened = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    place(&opened, &target).map_err(failed)?;
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(&opened), &target, None::<&str>, flags, None::<&str>).map_err(|e| failed(e.into()))?;
    Ok(target)
}

/// Opens the path, and makes the directories that are missing on the way, for whom the volume itself is open.
fn open_beneath(volume: &Path, path: &Path) -> nix::Result<OwnedFd> {
    let mut here = open(volume, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let root = here.try_clone().map_err(|_| Errno::EMFILE)?;
    let mode = Mode::from_bits_truncate(fstat(&root)?.st_mode & 0o7777);
    match openat2(&root, path, how()) {
        Err(Errno::ENOENT) => {}
        other => return other,
    }
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    for part in parts {
        let part = Path::new(part.as_os_str());
        here = match openat2(&here, part, how()) {
            Err(Errno::ENOENT) => {
                mkdirat(&here, part, Mode::from_bits_truncate(0o755))?;
                let made = openat2(&here, part, how().flags(OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY | FLAGS))?;
                // The umask would take bits away. Such a descriptor is changed by its path only.
                let path = format!("/proc/self/fd/{}", made.as_raw_fd());
                fchmodat(AT_FDCWD, path.as_str(), mode, FchmodatFlags::FollowSymlink)?;
                made
            }
            other => other?,
        };
    }
    Ok(here)
}

fn how() -> OpenHow {
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    OpenHow::new().flags(FLAGS).resolve(resolve)
}

/// Something of the same kind to mount on.
fn place(source: &Path, target: &Path) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    if fs::metadata(source)?.is_dir() {
        fs::create_dir_all(target)
    } else {
        fs::OpenOptions::new().create(true).append(true).open(target).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn nothing_outside_can_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("volume");
        fs::create_dir_all(volume.join("inside")).unwrap();
        fs::write(dir.path().join("secret"), "x").unwrap();
        symlink("/etc", volume.join("absolute")).unwrap();
        symlink("../secret", volume.join("up")).unwrap();
        symlink("inside", volume.join("fine")).unwrap();
        let check = |path: &str, ok: bool| {
            assert_eq!(open_beneath(&volume, Path::new(path)).is_ok(), ok, "{path}");
        };
        check("inside", true);
        check("fine", true);
        check("new/deep", true);
        check("absolute", false);
        check("absolute/passwd", false);
        check("up", false);
        assert!(volume.join("new/deep").is_dir());
        let bound = |path: &str| bind(&volume, path, dir.path().join("t"));
        assert!(matches!(bound("../secret"), Err(SubPathError::Invalid(_))));
        assert!(matches!(bound("/etc"), Err(SubPathError::Invalid(_))));
    }

    #[test]
    fn missing_directories_get_the_mode_of_the_volume() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o7777;
        for wanted in [0o2777, 0o750, 0o3777] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(wanted)).unwrap();
            open_beneath(dir.path(), &Path::new(&wanted.to_string()).join("deep")).unwrap();
            assert_eq!([mode(&wanted.to_string()), mode(&format!("{wanted}/deep"))], [wanted, wanted]);
        }
    }
}
