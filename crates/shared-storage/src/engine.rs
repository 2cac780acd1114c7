//! What a distributed file system must be able to do to carry the class `shared`.
//!
//! Volumes are directories of it with a limit of their own. An engine says which daemons a node runs, how it is mounted and
//! how limits and cheap copies are made; it starts and mounts nothing itself.

use std::path::{Path, PathBuf};

use minik8s_meta::shared_storage::ClusterStatus;

use crate::SharedError;
use crate::part::Part;

pub trait Engine: Send + Sync {
    /// Programs that the part of a node needs, with their packages.
    fn programs(&self, part: &Part) -> Vec<(&'static str, &'static str)>;

    /// The servers of a node, in the order in which they start.
    fn daemons(&self, part: &Part) -> Vec<Daemon>;

    /// Makes what a daemon needs before its first start, or after its end. Never touches what is there.
    fn prepare(&self, part: &Part, daemon: &Daemon) -> Result<(), SharedError>;

    /// Puts what a daemon must not begin with any more, since the node's part has changed, under another name.
    fn set_old_aside(&self, part: &Part) -> Result<(), SharedError>;

    /// The command that mounts a directory of the file system, and then stays behind as a process of its own.
    fn mount(&self, part: &Part, directory: &str, at: &Path, options: &[String]) -> Vec<String>;

    /// Gives a directory in a mount of the whole its copies; what is made in it from then on has as many.
    fn adopt(&self, part: &Part, directory: &Path) -> Result<(), SharedError>;

    /// Gives a directory in a mount of the whole a limit in bytes.
    fn limit(&self, part: &Part, directory: &Path, bytes: u64) -> Result<(), SharedError>;

    /// A copy that shares its data until one of both changes.
    fn copy(&self, from: &Path, to: &Path) -> Result<(), SharedError>;

    /// A node has given a volume up, or is dead: whatever its mount of it still holds, as locks, is let go. A mount that is
    /// connected is left alone.
    fn forget(&self, part: &Part, volume: &str, address: &str) -> Result<(), SharedError>;

    /// What the master says of the whole.
    fn status(&self, part: &Part) -> Result<ClusterStatus, SharedError>;

    /// The ports of the servers, which pods have no business with.
    fn ports(&self) -> &'static [u16];
}

/// A server of the file system on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    pub name: &'static str,
    pub package: &'static str,
    /// Its configuration: paths and what is in them. A change restarts it.
    pub files: Vec<(PathBuf, String)>,
    pub directories: Vec<PathBuf>,
    pub start: Vec<String>,
    pub stop: Vec<String>,
    /// Has its number on the first line.
    pub pid_file: PathBuf,
}
