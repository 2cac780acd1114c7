//! Volumes of CSI drivers on this node: the drivers that are registered, and what they have staged and published.
//!
//! A driver makes itself known by a socket in `plugins_registry/`. Before anything is asked of it, a record on the disk
//! says what is about to be: an agent that was killed finds by the records what it must take away. A volume that must be
//! attached is told to be in use before it is staged, and used only as long as the server has it attached; the server
//! detaches only what is not in use. Nothing here makes or deletes volumes.

mod attachment;
mod csi_node;
mod drivers;
mod expansion;
mod inline;
mod publication;
mod record;
mod registrations;
mod relay;
mod removal;
mod requests;
mod socket;
mod stats;

use std::io;

use minik8s_csi::CallError;
use minik8s_datadir::RemovalError;
use parking_lot::Mutex;
use thiserror::Error;

pub use drivers::{Drivers, Registered, keep_drivers};
pub use inline::{dir_name as inline_dir_name, publish as publish_inline};
pub use publication::{Publication, look_again, publish};
pub use record::PUBLISHED;
pub use relay::{MOST_BYTES, RelayError, relay};
pub use removal::{release_volumes, unpublish_leftovers, unpublish_pod};
pub use socket::SocketId;
pub use stats::volume_stats;

#[derive(Default)]
pub struct Csi {
    pub drivers: Drivers,
    /// The volumes in use as the server was last told.
    told_in_use: Mutex<Option<Vec<String>>>,
    /// Held while the server is told: a list of before must not come after the newer one.
    telling_in_use: tokio::sync::Mutex<()>,
    /// The drivers as the server was last told.
    told_drivers: Mutex<Option<serde_json::Value>>,
}

#[derive(Debug, Error)]
pub enum CsiError {
    #[error(
        "driver name {0} not found in the list of registered CSI drivers: is its node plugin running here? \
         (`kubectl get csinodes` shows the drivers of each node)"
    )]
    NoDriver(String),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("volume {0} is not attached to this node yet: {1}")]
    NotAttached(String, String),
    #[error(
        "driver {0} does not offer inline volumes (volumeLifecycleModes of its CSIDriver lacks Ephemeral)"
    )]
    NoInline(String),
    #[error("driver {0} offers inline volumes only (volumeLifecycleModes of its CSIDriver lacks Persistent)")]
    OnlyInline(String),
    #[error("secret {0} of the volume: {1}")]
    Secret(String, kube::Error),
    #[error("volume uses the ReadWriteOncePod access mode and is already in use by another pod")]
    Exclusive,
    #[error("{0:?} is no name for a directory of a volume")]
    Name(String),
    #[error(transparent)]
    Removal(#[from] RemovalError),
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the step was given up: {0}")]
    Task(#[from] tokio::task::JoinError),
}
