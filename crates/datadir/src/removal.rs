//! Removes a tree, and never a byte that does not lie in it.
//!
//! The way to it must have no links; from there on every directory is opened beneath its parent's descriptor, and the
//! kernel refuses links and mount points on the way (`openat2`). So whatever the mount table says or hides, and whatever
//! somebody swaps meanwhile, names are only taken out of directories of the tree itself. Where something is mounted the
//! removal ends with an error: what is mounted there belongs to somebody.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, RenameFlags, ResolveFlag, openat2, renameat2};
use nix::unistd::{UnlinkatFlags, unlinkat};
use thiserror::Error;

use crate::mount_table::points_below;
use crate::{UnmountError, unmount_below};

/// Descriptors that are open at once. What lies deeper is moved up first: a pod can nest directories without end.
const DEEPEST: usize = 32;
/// Names read at once, so that a directory of millions takes no memory.
const BATCH: usize = 1024;
/// How often a directory that fills again is emptied.
const ATTEMPTS: usize = 8;

#[derive(Debug, Error)]
pub enum RemovalError {
    #[error("{} is not removed: {} is mounted there", path.display(), point.display())]
    Mounted { path: PathBuf, point: PathBuf },
    #[error("{name:?} is not a name of a file in {}", directory.display())]
    Name { directory: PathBuf, name: OsString },
    #[error("nothing is removed from {}: a link leads there", .0.display())]
    Link(PathBuf),
    #[error("cannot remove {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Unmount(#[from] UnmountError),
}

/// Removes a file, a link or a directory with all its content. What is not there needs no removal.
///
/// `directory` must be a resolved path: this function follows no link.
pub fn remove_tree(directory: &Path, name: impl AsRef<OsStr>) -> Result<(), RemovalError> {
    let name = name.as_ref();
    check(directory, name)?;
    // Only to tell it before anything is removed: it is the kernel that keeps the removal from going there.
    let path = directory.join(name);
    match points_below(&path).map_err(io_error(&path))?.into_iter().next() {
        Some(point) => Err(RemovalError::Mounted { path, point }),
        None => remove(directory, name),
    }
}

/// Unmounts all that is mounted in a tree, and removes it. If something stays mounted, so does all of the tree.
pub fn unmount_and_remove(directory: &Path, name: impl AsRef<OsStr>) -> Result<(), RemovalError> {
    check(directory, name.as_ref())?;
    unmount_below(&directory.join(name.as_ref()))?;
    remove_tree(directory, name)
}

/// One name, which leads nowhere else.
fn check(directory: &Path, name: &OsStr) -> Result<(), RemovalError> {
    match Path::new(name).file_name() == Some(name) && directory.is_absolute() {
        true => Ok(()),
        false => Err(RemovalError::Name { directory: directory.to_owned(), name: name.to_owned() }),
    }
}

fn remove(directory: &Path, name: &OsStr) -> Result<(), RemovalError> {
    let path = directory.join(name);
    let failed = |errno: Errno| RemovalError::Io { path: path.clone(), source: errno.into() };
    let parent = match openat2(AT_FDCWD, directory, how(ResolveFlag::RESOLVE_NO_SYMLINKS)) {
        Ok(parent) => parent,
        Err(Errno::ENOENT) => return Ok(()),
        Err(Errno::ELOOP) => return Err(RemovalError::Link(directory.to_owned())),
        Err(errno) => return Err(failed(errno)),
    };
    let mut removal = Removal { top: &parent, path: &path, lifted: 0, open: vec![name.to_owned()] };
    while let Some(name) = removal.open.pop() {
        removal.entry(&parent, &name, &directory.join(&name), 0)?;
    }
    Ok(())
}

/// One removal under way.
struct Removal<'a> {
    /// The directory that the tree lies in.
    top: &'a OwnedFd,
    path: &'a Path,
    /// How many directories were moved up because they lay too deep.
    lifted: usize,
    /// Names in the directory that are still to be removed.
    open: Vec<OsString>,
}

impl Removal<'_> {
    fn entry(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        shown: &Path,
        depth: usize,
    ) -> Result<(), RemovalError> {
        let failed = |errno: Errno| RemovalError::Io { path: shown.to_owned(), source: errno.into() };
        for _ in 0..ATTEMPTS {
            let removed = match open_beneath(parent, name) {
                Ok(child) if depth < DEEPEST => {
                    self.empty(&child, shown, depth)?;
                    unlinkat(parent, name, UnlinkatFlags::RemoveDir)
                }
                Ok(_) => return self.lift(parent, name, shown),
                // A file, or a link, which is removed and not followed.
                Err(Errno::ENOTDIR | Errno::ELOOP) => unlinkat(parent, name, UnlinkatFlags::NoRemoveDir),
                Err(Errno::EXDEV) => {
                    return Err(RemovalError::Mounted {
                        path: self.path.to_owned(),
                        point: shown.to_owned(),
                    });
                }
                Err(errno) => Err(errno),
            };
            match removed {
                Ok(()) | Err(Errno::ENOENT) => return Ok(()),
                // Somebody has put something there, or something else.
                Err(Errno::ENOTEMPTY | Errno::EISDIR | Errno::ENOTDIR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Err(failed(Errno::ENOTEMPTY))
    }

    fn empty(&mut self, dir: &OwnedFd, shown: &Path, depth: usize) -> Result<(), RemovalError> {
        loop {
            let names = names(dir).map_err(io_error(shown))?;
            if names.is_empty() {
                return Ok(());
            }
            for name in names {
                self.entry(dir, &name, &shown.join(&name), depth + 1)?;
            }
        }
    }

    /// Moves a directory beside the tree, to be removed from there. Renaming crosses no mount either.
    fn lift(&mut self, parent: &OwnedFd, name: &OsStr, shown: &Path) -> Result<(), RemovalError> {
        loop {
            let mut new = OsString::from(".removed-");
            new.push(self.path.file_name().unwrap_or_default());
            new.push(format!("-{}", self.lifted));
            self.lifted += 1;
            let moved = renameat2(parent, name, self.top, new.as_os_str(), RenameFlags::RENAME_NOREPLACE);
            // One that exists was left by a removal that was cut short.
            self.open.push(new);
            match moved {
                Ok(()) | Err(Errno::ENOENT) => return Ok(()),
                Err(Errno::EEXIST) => {}
                Err(errno) => {
                    return Err(RemovalError::Io { path: shown.to_owned(), source: errno.into() });
                }
            }
        }
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> RemovalError {
    move |source| RemovalError::Io { path: path.to_owned(), source }
}

fn open_beneath(parent: &OwnedFd, name: &OsStr) -> nix::Result<OwnedFd> {
    let resolve =
        ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH;
    openat2(parent, name, how(resolve))
}

fn how(resolve: ResolveFlag) -> OpenHow {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    OpenHow::new().flags(flags).resolve(resolve)
}

/// Some of the names in a directory; none if it is empty. The way through /proc leads to the descriptor itself.
fn names(dir: &OwnedFd) -> io::Result<Vec<OsString>> {
    let entries = fs::read_dir(format!("/proc/self/fd/{}", dir.as_raw_fd()))?;
    entries.take(BATCH).map(|entry| Ok(entry?.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    /// As if the mount table had told of nothing.
    #[test]
    fn kernel_stops_a_removal_at_a_mount() {
        assert!(nix::unistd::Uid::effective().is_root(), "this test mounts, and needs root");
        let run = || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let base = fs::canonicalize(dir.path()).unwrap();
            fs::create_dir_all(base.join("tree/a/mounted")).unwrap();
            fs::create_dir(base.join("users")).unwrap();
            fs::write(base.join("users/thesis.tex"), "years").unwrap();
            let bind = |flags| {
                let (from, to) = (base.join("users"), base.join("tree/a/mounted"));
                mount(Some(&from), &to, None::<&str>, flags, None::<&str>).unwrap();
            };
            bind(MsFlags::MS_BIND);
            let error = remove(&base, OsStr::new("tree")).unwrap_err();
            assert!(matches!(error, RemovalError::Mounted { .. }), "{error}");
            assert_eq!(fs::read_to_string(base.join("users/thesis.tex")).unwrap(), "years");
            unmount_and_remove(&base, "tree").unwrap();
            assert_eq!(fs::read_to_string(base.join("users/thesis.tex")).unwrap(), "years");
            assert!(!base.join("tree").exists());
        };
        std::thread::spawn(run).join().unwrap();
    }
}
