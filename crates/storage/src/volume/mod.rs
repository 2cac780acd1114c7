//! Volumes: in which phase they are, protected while a claim has them, reclaimed when it is gone.
//!
//! A volume is only reclaimed when the API itself, not a cache, has said that its claim is gone. Nothing is deleted that
//! nobody has asked to delete: `Retain` keeps everything, and volumes that were made by hand are never emptied.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};

use crate::claim::claim_of;
use crate::index::VolumeIndex;
use crate::local;

#[derive(Default)]
pub struct Volumes {
    index: Arc<VolumeIndex>,
}

pub struct Observed {
    volume: Arc<PersistentVolume>,
    /// The claim of the name that the volume is kept for, be it another of that name.
    claim: Option<Arc<PersistentVolumeClaim>>,
    /// Whether the node that has its image is part of the cluster.
    has_node: bool,
}

impl Controller for Volumes {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "persistentvolume-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        let index = self.index.clone();
        watches.on_change::<PersistentVolume>(move |old, new| {
            index.change(old, new);
            new.or(old).map(key_of).into_iter().collect()
        });
        let index = self.index.clone();
        watches.on_change::<PersistentVolumeClaim>(move |old, new| {
            let named = |claim: &PersistentVolumeClaim| claim.spec.as_ref()?.volume_name.clone();
            let mut keys: Vec<Key> =
                old.into_iter().chain(new).filter_map(named).map(|name| Key::new("", name)).collect();
            // One that goes, or that names its volume, may be named by others.
            if old.and_then(named) != new.and_then(named) || new.is_none() {
                let kept = old.or(new).map(|claim| index.kept_for(&key_of(claim)));
                keys.extend(kept.into_iter().flatten().map(|name| Key::new("", name)));
            }
            keys
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            let (Some(old), None, Some(caches)) = (old, new, caches.upgrade()) else { return Vec::new() };
            let volumes = caches.of::<PersistentVolume>().list();
            let there =
                volumes.iter().filter(|volume| local::node_of(volume) == old.metadata.name.as_deref());
            there.map(|volume| key_of(&**volume)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let volume = caches.of::<PersistentVolume>().get(key)?;
        let claim = claim_of(&volume).and_then(|claim| caches.of::<PersistentVolumeClaim>().get(&claim));
        let node = local::node_of(&volume);
        let has_node = node.is_none_or(|node| caches.of::<Node>().get(&Key::new("", node)).is_some());
        Some(Observed { volume, claim, has_node })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        plan::plan(seen)
    }
}
