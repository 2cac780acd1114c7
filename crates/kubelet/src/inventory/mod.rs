//! What is on a node: all containers, also those that are nobody's here, and all images, of which unused ones can go.
//!
//! [`containers`] and [`images`] are pure; `server/inventory.rs` asks the runtimes. Nothing here ends or removes a container,
//! and no image goes that a container, or a pod of this node, may need.

mod containers;
mod images;

pub use containers::{ContainerEntry, entries as container_entries, is_of_cri};
pub use images::{ImageEntry, NotRemovable, Selection, Uses, entries as image_entries, pod_label, unused};

use std::path::{Path, PathBuf};

/// Where other containerds listen: the machine's own, and the one that Docker brings along.
const OTHERS: [&str; 2] = ["/run/containerd/containerd.sock", "/run/docker/containerd/containerd.sock"];

/// Sockets of containerds on this machine beside the node's own.
pub fn other_sockets(own: &Path) -> Vec<PathBuf> {
    let own = own.canonicalize().unwrap_or_else(|_| own.to_owned());
    let there = OTHERS.iter().filter_map(|socket| Path::new(socket).canonicalize().ok());
    let mut others: Vec<PathBuf> = there.filter(|socket| *socket != own).collect();
    others.dedup();
    others
}
