//! Volumes of the class `local`: what one that is made for a claim looks like. Pure; the image is the agent's.
//!
//! Its name comes from the claim's UID, so making it twice makes one. It names its node twice: in the affinity, for the
//! scheduler, and as an attribute, by which the node's agent finds its volumes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIStorageCapacity, StorageClass};
use minik8s_meta::local_volume::{
    DRIVER, IMAGE_FINALIZER, NODE_ATTRIBUTE, SNAPSHOT_ATTRIBUTE, SOURCE_ATTRIBUTE, capacity_name,
    parse_snapshot_handle,
};
use minik8s_meta::snapshot::VolumeSnapshotContent;
use minik8s_meta::{Quantity, QuantityFormat};
use minik8s_runtime::Kind;
use serde_json::{Value, json};

use crate::annotation::{PROVISIONED_BY, VOLUME_PROTECTION};
use crate::fit::{capacity, requested};
use crate::snapshot::names::handle;

const FILESYSTEM: &str = "Filesystem";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Why no volume is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmade {
    AccessMode { mode: String },
    NoNode,
    NoRoom { node: String, free: String, wanted: String },
    SourceKind(String),
    SourceUnbound(String),
    SourceElsewhere { source: String, node: String },
    SourceDriver(String),
    SourceLarger { source: String, size: String },
    SourceMode(String),
    SnapshotUnready(String),
    Parameter { name: &'static str, why: &'static str },
}

impl std::fmt::Display for Unmade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unmade::AccessMode { mode } => write!(
                f,
                "its volumes are on one node, so {mode} is not possible: ask for ReadWriteOnce, or for another class"
            ),
            Unmade::NoNode => f.write_str("no node is ready to hold the volume"),
            Unmade::NoRoom { node, free, wanted } => write!(
                f,
                "node {node} did not have enough free storage: {free} of {wanted}; ask for less, or make room"
            ),
            Unmade::SourceKind(kind) => {
                write!(
                    f,
                    "cannot start with a {kind}: the dataSource can be a PersistentVolumeClaim or a VolumeSnapshot of this class"
                )
            }
            Unmade::SourceUnbound(name) => {
                write!(f, "the claim {name:?} whose content it starts with is not there, or not bound")
            }
            Unmade::SourceElsewhere { source, node } => {
                write!(f, "{source} to start with is on node {node}: the pod must run there")
            }
            Unmade::SourceDriver(name) => write!(f, "{name} to start with is of another kind"),
            Unmade::SourceLarger { source, size } => {
                write!(f, "{source} to start with has {size}: ask for as much")
            }
            Unmade::SourceMode(name) => write!(f, "{name} to start with has another volumeMode"),
            Unmade::SnapshotUnready(name) => {
                write!(f, "the snapshot {name:?} to start with is not there, or not ready")
            }
            Unmade::Parameter { name, why } => write!(f, "its parameter {name:?} {why}"),
        }
    }
}

/// Where a volume can be made.
pub struct Places<'a> {
    /// As the scheduler chose.
    pub node: Option<&'a Node>,
    pub nodes: &'a [Arc<Node>],
    /// What nodes say that they have free.
    pub capacities: &'a [Arc<CSIStorageCapacity>],
    pub source: Result<Option<Source>, Unmade>,
}

impl Places<'_> {
    /// Thin images may together promise more than there is; one alone may not. A node that says nothing refuses by itself.
    fn check_room(&self, node: &Node, wanted: Quantity) -> Result<(), Unmade> {
        let node = node.metadata.name.as_deref().unwrap_or("");
        let name = capacity_name(node);
        let told = self.capacities.iter().find(|told| told.metadata.name.as_deref() == Some(&*name));
        let free = told.and_then(|told| Quantity::try_from(told.capacity.as_ref()?).ok());
        match free.filter(|free| *free < wanted) {
            Some(free) => Err(Unmade::NoRoom {
                node: node.to_owned(),
                free: free.to_string(),
                wanted: wanted.to_string(),
            }),
            None => Ok(()),
        }
    }
}

/// What a volume starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The attribute of the new volume that names it, and its name on the node.
    attribute: (&'static str, String),
    /// In words.
    name: String,
    pub node: String,
    size: Quantity,
    mode: String,
}

impl Source {
    pub fn volume(volume: &PersistentVolume) -> Result<Source, Unmade> {
        let id = volume.metadata.name.clone().unwrap_or_default();
        let name = format!("the volume {id}");
        let node = node_of(volume).ok_or_else(|| Unmade::SourceDriver(name.clone()))?.to_owned();
        let mode = volume.spec.as_ref().and_then(|spec| spec.volume_mode.clone());
        let mode = mode.unwrap_or_else(|| FILESYSTEM.to_owned());
        Ok(Source { attribute: (SOURCE_ATTRIBUTE, id), name, node, size: capacity(volume), mode })
    }

    pub fn snapshot(content: &VolumeSnapshotContent) -> Result<Source, Unmade> {
        let name = format!("the snapshot {}", content.metadata.name.as_deref().unwrap_or_default());
        let handle = handle(content).and_then(parse_snapshot_handle);
        let (node, id) = handle
            .filter(|_| content.spec.driver == DRIVER)
            .ok_or_else(|| Unmade::SourceDriver(name.clone()))?;
        let size = content.status.as_ref().and_then(|status| status.restore_size).unwrap_or(0);
        Ok(Source {
            attribute: (SNAPSHOT_ATTRIBUTE, id.to_owned()),
            node: node.to_owned(),
            size: Quantity::new(size, QuantityFormat::BinarySi),
            mode: content.spec.source_volume_mode.clone().unwrap_or_else(|| FILESYSTEM.to_owned()),
            name,
        })
    }

    fn check(&self, claim: &PersistentVolumeClaim) -> Result<(), Unmade> {
        let mode = claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()).unwrap_or(FILESYSTEM);
        if mode != self.mode {
            return Err(Unmade::SourceMode(self.name.clone()));
        }
        if self.size > requested(claim) {
            return Err(Unmade::SourceLarger { source: self.name.clone(), size: self.size.to_string() });
        }
        Ok(())
    }
}

pub fn volume(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    places: &Places<'_>,
) -> Result<PersistentVolume, Unmade> {
    let spec = claim.spec.clone().unwrap_or_default();
    let modes = spec.access_modes.unwrap_or_default();
    if let Some(mode) =
        modes.iter().find(|mode| !matches!(mode.as_str(), "ReadWriteOnce" | "ReadWriteOncePod"))
    {
        return Err(Unmade::AccessMode { mode: mode.clone() });
    }
    let source = places.source.clone()?;
    let uid = claim.metadata.uid.as_deref().unwrap_or("");
    let node = choose(places, source.as_ref(), uid, requested(claim))?;
    places.check_room(node, requested(claim))?;
    let name = format!("pvc-{uid}");
    let node_name = node.metadata.name.as_deref().unwrap_or("");
    let mut attributes = json!({NODE_ATTRIBUTE: node_name});
    if let Some(source) = source {
        source.check(claim)?;
        attributes[source.attribute.0] = source.attribute.1.into();
    }
    let host = node.metadata.labels.as_ref().and_then(|labels| labels.get(HOSTNAME));
    let mut object = made_for(claim, class, &name);
    object["metadata"]["annotations"] = json!({PROVISIONED_BY: DRIVER});
    object["metadata"]["finalizers"] = json!([VOLUME_PROTECTION, IMAGE_FINALIZER]);
    object["spec"]["accessModes"] = json!(modes);
    object["spec"]["csi"] =
        json!({"driver": DRIVER, "volumeHandle": name, "fsType": "ext4", "volumeAttributes": attributes});
    object["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": HOSTNAME, "operator": "In", "values": [host.map_or(node_name, String::as_str)]}]}]}});
    Ok(serde_json::from_value(object).expect("a volume made of known fields"))
}

/// What every volume has that is made for a claim.
pub fn made_for(claim: &PersistentVolumeClaim, class: &StorageClass, name: &str) -> Value {
    let spec = claim.spec.clone().unwrap_or_default();
    json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": requested(claim).to_string()},
            "accessModes": spec.access_modes,
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": class.metadata.name,
            "volumeMode": spec.volume_mode.as_deref().unwrap_or("Filesystem"),
            "mountOptions": class.mount_options,
            "claimRef": {
                "apiVersion": "v1",
                "kind": Kind::of::<PersistentVolumeClaim>().kind,
                "namespace": claim.metadata.namespace,
                "name": claim.metadata.name,
                "uid": claim.metadata.uid,
            },
        },
    })
}

/// The scheduler's node; else that of the source; else any that is ready, and has room if one has.
fn choose<'a>(
    places: &Places<'a>,
    source: Option<&Source>,
    uid: &str,
    wanted: Quantity,
) -> Result<&'a Node, Unmade> {
    let named =
        |name: &str| places.nodes.iter().map(|n| &**n).find(|n| n.metadata.name.as_deref() == Some(name));
    let home = source.map(|source| source.node.as_str());
    match (places.node, home) {
        (Some(node), Some(home)) if node.metadata.name.as_deref() != Some(home) => {
            let source = source.map(|source| source.name.clone()).unwrap_or_default();
            Err(Unmade::SourceElsewhere { source, node: home.to_owned() })
        }
        (Some(node), _) => Ok(node),
        (None, Some(home)) => named(home).ok_or(Unmade::NoNode),
        (None, None) => {
            let ready: Vec<&Node> = places.nodes.iter().map(|node| &**node).filter(|n| is_ready(n)).collect();
            let has_room = |node: &&Node| places.check_room(node, wanted).is_ok();
            let roomy: Vec<&Node> = ready.iter().copied().filter(has_room).collect();
            let all = if roomy.is_empty() { ready } else { roomy };
            if all.is_empty() { Err(Unmade::NoNode) } else { Ok(all[spread(uid) % all.len()]) }
        }
    }
}

/// The node of a volume of this class; None for volumes of others.
pub fn node_of(volume: &PersistentVolume) -> Option<&str> {
    let csi = volume.spec.as_ref()?.csi.as_ref().filter(|csi| csi.driver == DRIVER)?;
    csi.volume_attributes.as_ref()?.get(NODE_ATTRIBUTE).map(String::as_str)
}

/// Ready for new volumes.
pub fn is_ready(node: &Node) -> bool {
    is_up(node) && node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true))
}

/// Its agent answers.
pub fn is_up(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|c| c.type_ == "Ready").any(|c| c.status == "True")
}

/// The same number for the same text, and seldom for another.
pub fn spread(text: &str) -> usize {
    text.bytes().fold(0xcbf2_9ce4, |sum: usize, byte| (sum ^ usize::from(byte)).wrapping_mul(0x0100_0193))
}
