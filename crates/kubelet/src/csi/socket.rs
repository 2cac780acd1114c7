//! The sockets by which plugins register, each told from all that were there before it. Nothing is asked of them here.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A new file often has the inode of one that was just removed: by that alone, a driver that comes when another goes would
/// be taken for it, and never registered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketId {
    pub path: PathBuf,
    pub inode: u64,
    /// None where the file system does not keep it.
    pub created: Option<SystemTime>,
}

impl SocketId {
    /// None where no socket is.
    fn at(path: PathBuf) -> io::Result<Option<Self>> {
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata?,
        };
        let id = SocketId { path, inode: metadata.ino(), created: metadata.created().ok() };
        Ok(metadata.file_type().is_socket().then_some(id))
    }

    /// Whether no other has taken its place.
    pub fn is_there(&self) -> bool {
        Self::at(self.path.clone()).is_ok_and(|found| found.as_ref() == Some(self))
    }
}

/// A directory that cannot be read is an error: nobody may take that for drivers that are gone.
pub fn sockets(dir: &Path) -> io::Result<Vec<SocketId>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut sockets = Vec::new();
    for entry in entries {
        sockets.extend(SocketId::at(entry?.path())?);
    }
    Ok(sockets)
}
