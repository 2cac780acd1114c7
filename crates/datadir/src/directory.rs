//! The data dir itself: made, resolved once, and closed to the machine's other users.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::purge::is_known;

const CLOSED: u32 = 0o700;

/// Makes the data dir if need be and returns its path without links, which is what the mount table knows it by. Bind
/// mounts need no way through it, so nobody but root gets one.
///
/// A directory that holds other people's files is not closed: that would take them away from their owners. What minik8s
/// puts there is closed all the same.
pub fn prepare(path: &Path) -> io::Result<PathBuf> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(CLOSED).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        other => other?,
    }
    let resolved = fs::canonicalize(path)?;
    if is_only_ours(&resolved)? {
        close(&resolved)?;
    } else if is_open(&resolved)? {
        tracing::warn!(
            "{} holds files of others, so it stays as open as it is: give minik8s a directory of its own",
            resolved.display()
        );
    }
    Ok(resolved)
}

/// Makes a directory that nobody but its owner may look into, or makes it so.
pub fn close(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(CLOSED).create(path)?;
    if is_open(path)? { fs::set_permissions(path, Permissions::from_mode(CLOSED)) } else { Ok(()) }
}

fn is_open(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

/// The path without links. What does not exist has none, and is only made absolute.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(path),
        other => other,
    }
}

fn is_only_ours(dir: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        if !is_known(&name) && name != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn data_dir_behind_a_link_is_resolved_and_closed() {
        let temporary = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(temporary.path()).unwrap();
        fs::create_dir(base.join("real")).unwrap();
        fs::set_permissions(base.join("real"), Permissions::from_mode(0o755)).unwrap();
        symlink(base.join("real"), base.join("link")).unwrap();
        assert_eq!(prepare(&base.join("link")).unwrap(), base.join("real"));
        assert_eq!(mode(&base.join("real")), 0o700);
        assert_eq!(prepare(&base.join("new/deep")).unwrap(), base.join("new/deep"));
        assert_eq!((mode(&base.join("new/deep")), mode(&base.join("new")) & 0o055), (0o700, 0o055));
        assert_eq!(resolve(&base.join("link")).unwrap(), base.join("real"));
        assert_eq!(resolve(&base.join("none")).unwrap(), base.join("none"));
    }

    #[test]
    fn data_dir_with_files_of_others_stays_open() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("pods")).unwrap();
        fs::write(dir.path().join("thesis.tex"), "").unwrap();
        prepare(dir.path()).unwrap();
        assert_eq!(mode(dir.path()), 0o755);
        fs::remove_file(dir.path().join("thesis.tex")).unwrap();
        prepare(dir.path()).unwrap();
        assert_eq!(mode(dir.path()), 0o700);
    }

    #[test]
    fn data_dir_that_is_a_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(prepare(&dir.path().join("file")).is_err());
    }
}
