//! Deals free volumes out to claims that wait, a class at a time.
//!
//! A volume that comes wakes one key, not every claim: the cost is that of one look at the class, however many wait. Only the
//! volume's side of a binding is written here; the claim, woken by that, does the rest.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};
use parking_lot::Mutex;

use super::plan;
use crate::annotation::{SELECTED_NODE, annotation};
use crate::fit::{Wanted, class_name};
use crate::index::{VolumeIndex, is_free};

#[derive(Default)]
pub struct Matches {
    volumes: Arc<VolumeIndex>,
    /// Claims that want any volume of a class, by its name.
    waiting: Arc<Mutex<HashMap<String, BTreeSet<Key>>>>,
}

pub struct Observed {
    /// That wait, the oldest first.
    claims: Vec<(Arc<PersistentVolumeClaim>, Option<Arc<Node>>)>,
    /// That nobody has, the smallest first.
    volumes: Vec<Arc<PersistentVolume>>,
}

impl Controller for Matches {
    /// The name of a class.
    type Key = String;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "persistentvolume-controller"
    }

    fn watch(&self, watches: &Watches<String>) {
        let index = self.volumes.clone();
        watches.on_change::<PersistentVolume>(move |old, new| {
            index.change(old, new);
            let free = new.filter(|volume| is_free(volume));
            free.map(|volume| class_name(volume).to_owned()).into_iter().collect()
        });
        let waiting = self.waiting.clone();
        // Whoever comes to wait looks for itself.
        watches.on_change::<PersistentVolumeClaim>(move |old, new| {
            let mut waiting = waiting.lock();
            if let Some(claim) = old
                && let Some(claims) = waiting.get_mut(plan::class_name(claim))
            {
                claims.remove(&key_of(claim));
            }
            if let Some(claim) = new.filter(|claim| is_waiting(claim)) {
                waiting.entry(plan::class_name(claim).to_owned()).or_default().insert(key_of(claim));
            }
            Vec::new()
        });
        watches.needs::<StorageClass>();
        watches.needs::<Node>();
    }

    fn observe(&self, caches: &Caches, class: &String) -> Option<Observed> {
        let waiting = self.waiting.lock().get(class).cloned().filter(|claims| !claims.is_empty())?;
        let volumes = caches.of::<PersistentVolume>();
        let free = self.volumes.free_of(class);
        let free = free.iter().filter_map(|name| volumes.get(&Key::new("", &**name)));
        let volumes: Vec<_> = free.filter(|volume| is_free(volume)).collect();
        if volumes.is_empty() {
            return None;
        }
        let known = caches.of::<StorageClass>().get(&Key::new("", &**class));
        let waits = known.is_some_and(|class| plan::waits_for_consumer(&class));
        let all = caches.of::<PersistentVolumeClaim>();
        let claims = waiting.iter().filter(|claim| self.volumes.kept_for(claim).is_empty());
        let claims = claims.filter_map(|claim| all.get(claim));
        let mut claims: Vec<_> = claims.filter(|claim| is_waiting(claim)).collect();
        claims.sort_by_key(|claim| {
            (claim.metadata.creation_timestamp.clone().map(|time| time.0), claim.metadata.uid.clone())
        });
        let nodes = caches.of::<Node>();
        let placed = |claim: Arc<PersistentVolumeClaim>| {
            let node = annotation(&claim.metadata, SELECTED_NODE).filter(|_| waits);
            let node = node.map(|name| nodes.get(&Key::new("", name)));
            match node {
                // Its node is not chosen yet, or not there.
                None if waits => None,
                Some(None) => None,
                node => Some((claim, node.flatten())),
            }
        };
        let claims = claims.into_iter().filter_map(placed).collect();
        Some(Observed { claims, volumes })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let mut free: Vec<&PersistentVolume> = seen.volumes.iter().map(|volume| &**volume).collect();
        for (claim, node) in &seen.claims {
            let wanted = Wanted::new(claim, node.as_deref());
            if let Some(at) = free.iter().position(|volume| wanted.misfit(volume).is_none()) {
                plan::keep(claim, free.remove(at), &mut plan);
            }
            if free.is_empty() {
                break;
            }
        }
        plan
    }

    /// Classes one after another, so that they do not fight for claims.
    fn workers(&self) -> usize {
        1
    }
}

/// Wants any volume that does, and an empty one.
fn is_waiting(claim: &PersistentVolumeClaim) -> bool {
    let spec = claim.spec.as_ref();
    plan::volume_name(claim).is_none()
        && claim.metadata.deletion_timestamp.is_none()
        && spec.is_some_and(|spec| spec.data_source.is_none() && spec.data_source_ref.is_none())
}
