//! Attaches volumes of CSI drivers to the nodes whose pods use them, and detaches them: by VolumeAttachments, which the
//! driver's attacher carries out.
//!
//! A volume for one node is attached to one at a time. It moves when the old node has given it up, which its agent says in
//! `volumesInUse`, or when somebody says that the node is dead (the taint `out-of-service`, or its Node deleted). No time
//! that passes is taken for that.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::local_volume;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};

use crate::claim::{claim_of, claims_of};

pub struct Attachments;

pub struct Observed {
    volume: Arc<PersistentVolume>,
    driver: Option<Arc<CSIDriver>>,
    /// Pods on nodes that use it.
    users: Vec<Arc<Pod>>,
    attachments: Vec<Arc<VolumeAttachment>>,
    /// Those that the attachments and the users are on, as far as they are there.
    nodes: BTreeMap<String, Arc<Node>>,
}

impl Controller for Attachments {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "attachdetach-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.on::<PersistentVolume>(|_, volume| {
            Some(volume).filter(|volume| driver_of(volume).is_some()).map(key_of).into_iter().collect()
        });
        watches.on::<VolumeAttachment>(|_, attachment| volume_of(attachment).into_iter().collect());
        watches.on::<PersistentVolumeClaim>(|_, claim| volume_of_claim(claim).into_iter().collect());
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Pod>(move |old, new| {
            let Some(caches) = caches.upgrade() else { return Vec::new() };
            let state = |pod: Option<&Pod>| {
                pod.map(|pod| (plan::node_of(pod).map(str::to_owned), plan::has_ended(pod)))
            };
            let pod = match state(old) == state(new) {
                true => None,
                false => new.or(old),
            };
            let claims = caches.of::<PersistentVolumeClaim>();
            let keys = pod.map(claims_of).unwrap_or_default().into_iter();
            keys.filter_map(|claim| volume_of_claim(&*claims.get(&claim)?)).collect()
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            let Some(caches) = caches.upgrade() else { return Vec::new() };
            if old.map(matters) == new.map(matters) {
                return Vec::new();
            }
            let name = new.or(old).and_then(|node| node.metadata.name.clone()).unwrap_or_default();
            let attachments = caches.of::<VolumeAttachment>().list();
            attachments
                .iter()
                .filter(|one| one.spec.node_name == name)
                .filter_map(|one| volume_of(one))
                .collect()
        });
        watches.on::<CSIDriver>(|caches, driver| {
            let volumes = caches.of::<PersistentVolume>().list();
            let of_driver =
                volumes.iter().filter(|volume| driver_of(volume) == driver.metadata.name.as_deref());
            of_driver.map(|volume| key_of(&**volume)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let volume = caches.of::<PersistentVolume>().get(key)?;
        let driver = caches.of::<CSIDriver>().get(&Key::new("", driver_of(&volume)?));
        let attachments: Vec<_> = caches
            .of::<VolumeAttachment>()
            .list()
            .into_iter()
            .filter(|one| volume_of(one).as_ref() == Some(key))
            .collect();
        let users = users(caches, &volume);
        let names = attachments.iter().map(|one| one.spec.node_name.clone());
        let names = names.chain(users.iter().filter_map(|pod| plan::node_of(pod).map(str::to_owned)));
        let nodes =
            names.filter_map(|name| Some((name.clone(), caches.of::<Node>().get(&Key::new("", name))?)));
        Some(Observed { nodes: nodes.collect(), volume, driver, users, attachments })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        plan::plan(seen)
    }
}

/// The driver of another project that a volume is of.
pub fn driver_of(volume: &PersistentVolume) -> Option<&str> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    Some(csi.driver.as_str()).filter(|driver| *driver != local_volume::DRIVER)
}

pub fn volume_of(attachment: &VolumeAttachment) -> Option<Key> {
    attachment.spec.source.persistent_volume_name.as_ref().map(|name| Key::new("", &**name))
}

fn volume_of_claim(claim: &PersistentVolumeClaim) -> Option<Key> {
    let name = claim.spec.as_ref()?.volume_name.as_ref().filter(|name| !name.is_empty())?;
    Some(Key::new("", &**name))
}

/// Pods on nodes whose claim has this volume, and which has it only.
fn users(caches: &Caches, volume: &PersistentVolume) -> Vec<Arc<Pod>> {
    let Some(claim) = claim_of(volume) else { return Vec::new() };
    let has = caches.of::<PersistentVolumeClaim>().get(&claim).and_then(|claim| volume_of_claim(&claim));
    if has != Some(key_of(volume)) {
        return Vec::new();
    }
    let pods = caches.of::<Pod>().in_namespace(&claim.namespace).into_iter();
    pods.filter(|pod| plan::node_of(pod).is_some() && claims_of(pod).contains(&claim)).collect()
}

/// What of a node has to do with volumes.
fn matters(node: &Node) -> (Vec<String>, Vec<String>, bool) {
    let status = node.status.clone().unwrap_or_default();
    let attached =
        status.volumes_attached.unwrap_or_default().into_iter().map(|volume| volume.name).collect();
    (status.volumes_in_use.unwrap_or_default(), attached, plan::is_out_of_service(node))
}
