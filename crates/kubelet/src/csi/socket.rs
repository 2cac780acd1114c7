//! The sockets by which plugins register, each told from all that were there before it. Nothing is asked of them here.

use std::fs;
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

pub fn sockets(dir: &Path) -> Vec<SocketId> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sockets = entries.filter_map(|entry| {
        let metadata = fs::symlink_metadata(entry.path()).ok()?;
        let id = SocketId { path: entry.path(), inode: metadata.ino(), created: metadata.created().ok() };
        metadata.file_type().is_socket().then_some(id)
    });
    sockets.collect()
}
