//! Pods from files of this node. They run without the API server, which shows a mirror of each.
//!
//! A file's pod is told from another version of it by its UID, a digest of node, path and content. The
//! mirror only mirrors: whoever deletes it gets a new one, and the pod goes on.

mod directory;
mod file;
mod mirror;

pub use directory::Directory;
pub use mirror::{delete_mirror, keep_mirror};

use k8s_openapi::api::core::v1 as core;

/// Names the static pod that an API object is the mirror of.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Says where a pod comes from.
pub const SOURCE: &str = "kubernetes.io/config.source";

/// The UID of the static pod that this object mirrors.
pub fn mirrored(pod: &core::Pod) -> Option<&String> {
    pod.metadata.annotations.as_ref()?.get(MIRROR)
}
