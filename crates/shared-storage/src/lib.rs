//! The class `shared` on a node: volumes that every node reaches at once, on a distributed file system of others.
//!
//! An agent that is told of a set-up runs its part of the file system's servers, and is the CSI driver `shared.minik8s.io`
//! by a socket in the data dir, as drivers of others are: all that kubelet and server do for drivers (staging, records,
//! attachments, growth, snapshots) is done for it. Servers and mounts are processes of their own, which outlive the agent.
//! Which file system it is stands behind [`Engine`]. Nothing runs, and nothing is kept in memory, where no set-up is.

mod agent;
mod check;
mod controller;
mod daemon;
mod driver;
mod engine;
mod guard;
mod moosefs;
mod mount;
mod node;
mod part;
mod pending;
mod program;
mod root_mount;

use std::io;

use thiserror::Error;

pub use agent::{Machine, SharedStorageAgent};

#[derive(Debug, Error)]
pub enum SharedError {
    #[error("{program} is not installed on this node: apt-get install {package}")]
    Missing { program: String, package: &'static str },
    #[error("{program} failed: {message}")]
    Program { program: String, message: String },
    #[error("{0:?} is no name for a volume or snapshot")]
    Name(String),
    #[error("shared storage is not set up on this node (yet)")]
    NotSetUp,
    #[error("the set-up has an address, name or number that cannot be one")]
    Setup,
    #[error("no volume or snapshot {0:?}")]
    NotFound(String),
    #[error("{0:?} is there already, and is another")]
    Exists(String),
    #[error("a shared volume is a file system: volumeMode Block is not possible")]
    Block,
    #[error("this is being done already: {0}")]
    Pending(String),
    #[error("the call cannot be read: {0}")]
    Call(String),
    #[error("{0} is not a call of this driver")]
    Method(String),
    #[error("no volume is staged at {0}")]
    NotStaged(std::path::PathBuf),
    #[error(
        "this node has no metadata to begin with: the master was elsewhere, and no metalogger ran here (or it has not \
         seen the master yet)"
    )]
    NoMetadata,
    #[error("cannot read or write {path}")]
    File { path: std::path::PathBuf, source: io::Error },
    #[error(transparent)]
    Unmount(#[from] minik8s_datadir::UnmountError),
    #[error(transparent)]
    Removal(#[from] minik8s_datadir::RemovalError),
    #[error(transparent)]
    Io(#[from] io::Error),
}
