//! What is to be asked of drivers. Pure.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use minik8s_csi::{CONTROLLER_ANNOTATION, CONTROLLER_BY_AGENT};
use minik8s_meta::snapshot::VolumeSnapshotContent;
use minik8s_runtime::{Caches, Key, key_of};

use super::snapshot_due;
use crate::annotation::{PROVISIONED_BY, SELECTED_NODE, STORAGE_PROVISIONER, annotation};
use crate::attach::driver_of;
use crate::claim::{claim_of, waits_for_consumer};
use crate::fit::{attributes_class, capacity, reaches, requested, storage};

/// Kept on a claim for which a volume may have been made that nobody has written down yet.
pub const PROVISIONING: &str = "csi.minik8s.io/provisioning";
/// Kept on a volume until it is deleted in its storage system, as external-provisioner does.
pub const VOLUME: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// One thing to do. Each is known by its object: nothing is done twice at once for one.
#[derive(Debug, Clone)]
pub enum Work {
    Provision {
        claim: Arc<PersistentVolumeClaim>,
        class: Arc<StorageClass>,
    },
    /// The claim has its volume, or never will: nothing is half made any more.
    Settle {
        claim: Arc<PersistentVolumeClaim>,
        class: Option<Arc<StorageClass>>,
        is_written: bool,
    },
    Expand {
        claim: Arc<PersistentVolumeClaim>,
        volume: Arc<PersistentVolume>,
        is_allowed: bool,
    },
    /// It wants another VolumeAttributesClass than its volume has.
    Modify {
        claim: Arc<PersistentVolumeClaim>,
        volume: Arc<PersistentVolume>,
    },
    Delete {
        volume: Arc<PersistentVolume>,
    },
    /// The object is deleted, and its volume is to stay.
    LetGo {
        volume: Arc<PersistentVolume>,
    },
    Attach {
        attachment: Arc<VolumeAttachment>,
        volume: Arc<PersistentVolume>,
    },
    Detach {
        attachment: Arc<VolumeAttachment>,
        volume: Option<Arc<PersistentVolume>>,
    },
    Snapshot {
        content: Arc<VolumeSnapshotContent>,
    },
    DeleteSnapshot {
        content: Arc<VolumeSnapshotContent>,
    },
}

impl Work {
    /// Kind and name of the object.
    pub fn key(&self) -> (&'static str, Key) {
        match self {
            Work::Provision { claim, .. }
            | Work::Settle { claim, .. }
            | Work::Expand { claim, .. }
            | Work::Modify { claim, .. } => ("claim", key_of(&**claim)),
            Work::Delete { volume } | Work::LetGo { volume } => ("volume", key_of(&**volume)),
            Work::Attach { attachment, .. } | Work::Detach { attachment, .. } => {
                ("attachment", key_of(&**attachment))
            }
            Work::Snapshot { content } | Work::DeleteSnapshot { content } => ("content", key_of(&**content)),
        }
    }
}

/// The drivers whose controller service is ours to call.
pub fn drivers(caches: &Caches) -> BTreeSet<String> {
    let all = caches.of::<CSIDriver>().list();
    let ours = all
        .iter()
        .filter(|driver| annotation(&driver.metadata, CONTROLLER_ANNOTATION) == Some(CONTROLLER_BY_AGENT));
    ours.filter_map(|driver| driver.metadata.name.clone()).collect()
}

/// Everything that is due now.
pub fn due(caches: &Caches) -> Vec<Work> {
    let drivers = drivers(caches);
    let mut work = snapshot_due::due(caches, &drivers);
    if drivers.is_empty() {
        return work;
    }
    let volumes = caches.of::<PersistentVolume>();
    let claims = caches.of::<PersistentVolumeClaim>().list();
    let attachments = caches.of::<VolumeAttachment>().list();
    let classes = caches.of::<StorageClass>();
    work.extend(claims.into_iter().filter_map(|claim| {
        let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.clone()).unwrap_or_default();
        let class = classes.get(&Key::new("", class));
        let name = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).unwrap_or_default();
        let own = volumes.get(&Key::new("", provisioned_name(&claim)));
        let volume = volumes.get(&Key::new("", name)).or_else(|| own.clone());
        of_claim(claim, class, volume, own.is_some(), &drivers)
    }));
    let all = volumes.list();
    let attached: HashSet<Key> = attachments.iter().filter_map(|one| crate::attach::volume_of(one)).collect();
    work.extend(all.into_iter().filter_map(|volume| {
        let is_ours = driver_of(&volume).is_some_and(|driver| drivers.contains(driver));
        let is_attached = attached.contains(&key_of(&*volume));
        is_ours.then(|| of_volume(volume, is_attached)).flatten()
    }));
    work.extend(attachments.iter().filter_map(|attachment| {
        let volume = crate::attach::volume_of(attachment).and_then(|key| volumes.get(&key));
        drivers
            .contains(&attachment.spec.attacher)
            .then(|| of_attachment(attachment.clone(), volume))
            .flatten()
    }));
    work
}

/// The name of a claim's volume, here and in the storage system.
pub fn provisioned_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

fn has(finalizers: Option<&Vec<String>>, name: &str) -> bool {
    finalizers.is_some_and(|all| all.iter().any(|one| one == name))
}

fn of_claim(
    claim: Arc<PersistentVolumeClaim>,
    class: Option<Arc<StorageClass>>,
    volume: Option<Arc<PersistentVolume>>,
    is_written: bool,
    drivers: &BTreeSet<String>,
) -> Option<Work> {
    let is_half_made = has(claim.metadata.finalizers.as_ref(), PROVISIONING);
    let is_deleted = claim.metadata.deletion_timestamp.is_some();
    let is_bound = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()).is_some();
    if is_half_made && (is_deleted || is_bound || is_written) {
        return Some(Work::Settle { claim, class, is_written });
    }
    if is_deleted {
        return None;
    }
    if let Some(volume) = volume.filter(|_| is_bound) {
        let is_ours = driver_of(&volume).is_some_and(|driver| drivers.contains(driver));
        let known = claim.status.as_ref().map(|status| storage(status.capacity.as_ref()));
        let statuses = claim.status.as_ref().and_then(|status| status.allocated_resource_statuses.as_ref());
        let is_nodes =
            statuses.is_some_and(|all| all.contains_key("storage")) && requested(&claim) <= capacity(&volume);
        let is_larger = known.is_some_and(|known| requested(&claim) > known) && !is_nodes;
        let is_allowed = class.is_some_and(|class| class.allow_volume_expansion == Some(true));
        let current =
            claim.status.as_ref().and_then(|status| status.current_volume_attributes_class_name.as_deref());
        let is_other =
            known.is_some() && attributes_class(&claim).is_some_and(|wanted| current != Some(wanted));
        return match (is_larger, is_other) {
            (true, _) if is_ours => Some(Work::Expand { claim, volume, is_allowed }),
            (false, true) if is_ours => Some(Work::Modify { claim, volume }),
            _ => None,
        };
    }
    let class = class.filter(|class| drivers.contains(&class.provisioner) && !is_bound)?;
    // The claims' controller says so when no volume that is there does, and no node is waited for.
    let is_asked = annotation(&claim.metadata, STORAGE_PROVISIONER) == Some(class.provisioner.as_str());
    let is_chosen = !waits_for_consumer(&class) || annotation(&claim.metadata, SELECTED_NODE).is_some();
    (is_asked && is_chosen && !is_written).then_some(Work::Provision { claim, class })
}

fn of_volume(volume: Arc<PersistentVolume>, is_attached: bool) -> Option<Work> {
    if !has(volume.metadata.finalizers.as_ref(), VOLUME) || is_attached {
        return None;
    }
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_made_for = annotation(&volume.metadata, PROVISIONED_BY) == driver_of(&volume);
    // The volumes' controller has asked the API itself whether the claim is gone.
    if phase == Some("Released") && policy == Some("Delete") && is_made_for && claim_of(&volume).is_some() {
        return Some(Work::Delete { volume });
    }
    let is_kept = policy != Some("Delete") || phase == Some("Available");
    (volume.metadata.deletion_timestamp.is_some() && is_kept && phase != Some("Bound"))
        .then_some(Work::LetGo { volume })
}

fn of_attachment(attachment: Arc<VolumeAttachment>, volume: Option<Arc<PersistentVolume>>) -> Option<Work> {
    let is_attached = attachment.status.as_ref().is_some_and(|status| status.attached);
    let finalizer = attacher_finalizer(&attachment.spec.attacher);
    if attachment.metadata.deletion_timestamp.is_some() {
        let is_ours = has(attachment.metadata.finalizers.as_ref(), &finalizer);
        return is_ours.then_some(Work::Detach { attachment, volume });
    }
    volume.filter(|_| !is_attached).map(|volume| Work::Attach { attachment, volume })
}

/// As external-attacher names it.
pub fn attacher_finalizer(driver: &str) -> String {
    format!("external-attacher/{}", driver.replace('.', "-"))
}

/// Where a driver can be asked for something new: nodes that are ready and have it, those that are preferred first.
pub fn nodes_for(
    driver: &str,
    csi_nodes: &[Arc<CSINode>],
    nodes: &[Arc<Node>],
    prefers: impl Fn(&Node) -> bool,
) -> Vec<String> {
    let mut found: Vec<&Node> = nodes
        .iter()
        .map(|node| &**node)
        .filter(|node| has_driver(node, driver, csi_nodes) && crate::local::is_ready(node))
        .collect();
    found.sort_by_key(|node| !prefers(node));
    found.into_iter().filter_map(|node| node.metadata.name.clone()).collect()
}

/// Where a driver can be asked about a volume that is there: nodes that are up, cordoned or not, have it and reach the
/// volume. A driver that does not know a volume answers that it is deleted, so one that is elsewhere is never asked.
pub fn nodes_reaching(
    driver: &str,
    csi_nodes: &[Arc<CSINode>],
    nodes: &[Arc<Node>],
    volume: &PersistentVolume,
) -> Vec<String> {
    nodes
        .iter()
        .filter(|node| has_driver(node, driver, csi_nodes) && crate::local::is_up(node))
        .filter(|node| reaches(volume, node))
        .filter_map(|node| node.metadata.name.clone())
        .collect()
}

fn has_driver(node: &Node, driver: &str, csi_nodes: &[Arc<CSINode>]) -> bool {
    csi_nodes
        .iter()
        .filter(|one| one.metadata.name == node.metadata.name)
        .any(|one| one.spec.drivers.iter().any(|known| known.name == driver))
}
