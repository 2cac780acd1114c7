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

/// Where each node says how much room it has for volumes, in a CSIStorageCapacity.
pub const CAPACITY_NAMESPACE: &str = "kube-system";

/// The name of a node's CSIStorageCapacity.
pub fn capacity_name(node: &str) -> String {
    format!("{DRIVER}.{node}")
}

/// The node whose CSIStorageCapacity has this namespace and name.
pub fn parse_capacity_name<'a>(namespace: &str, name: &'a str) -> Option<&'a str> {
    let node = name.strip_prefix(DRIVER)?.strip_prefix('.')?;
    (namespace == CAPACITY_NAMESPACE).then_some(node)
}

/// A snapshot as the API knows it: its node, and its name there.
pub fn snapshot_handle(node: &str, name: &str) -> String {
    format!("{node}/{name}")
}

/// Node and name of a snapshot.
pub fn parse_snapshot_handle(handle: &str) -> Option<(&str, &str)> {
    handle.split_once('/').filter(|(node, name)| !node.is_empty() && !name.is_empty() && !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_name_tells_its_node() {
        assert_eq!(parse_capacity_name("kube-system", &capacity_name("node.example")), Some("node.example"));
        assert_eq!(parse_capacity_name("ns", &capacity_name("a")), None);
        assert_eq!(parse_capacity_name("kube-system", "csisc-x"), None);
    }
}
