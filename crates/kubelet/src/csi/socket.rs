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

/// A directory that cannot be read is an error: nobody may take that for drivers that are gone.
pub fn sockets(dir: &Path) -> io::Result<Vec<SocketId>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut sockets = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if metadata.file_type().is_socket() {
            sockets.push(SocketId { path, inode: metadata.ino(), created: metadata.created().ok() });
        }
    }
    Ok(sockets)
}
