//! The words by which server and agents speak of volumes of the class `local`: images of file systems in a node's data
//! dir.

/// Provisioner of the class, and driver of its volumes.
pub const DRIVER: &str = "local.minik8s.io";
/// Kept on a volume until its node has dealt with the image.
pub const IMAGE_FINALIZER: &str = "local.minik8s.io/image";
/// The attribute of a volume that names its node.
pub const NODE_ATTRIBUTE: &str = "node";
/// The same as a field selector.
pub const NODE_FIELD: &str = "spec.csi.volumeAttributes.node";
/// The attribute that names the volume whose content a new one starts with.
pub const SOURCE_ATTRIBUTE: &str = "source";
/// The attribute that names the snapshot of the node that a new volume starts with.
pub const SNAPSHOT_ATTRIBUTE: &str = "snapshot";

/// A snapshot as the API knows it: its node, and its name there.
pub fn snapshot_handle(node: &str, name: &str) -> String {
    format!("{node}/{name}")
}

/// Node and name of a snapshot.
pub fn parse_snapshot_handle(handle: &str) -> Option<(&str, &str)> {
    handle.split_once('/').filter(|(node, name)| !node.is_empty() && !name.is_empty() && !name.contains('/'))
}
