//! Deals free volumes out to claims that wait, a class at a time.
//!
//! A volume that comes wakes one key, not every claim: the cost is that of one look at the class, however many wait. Only the
//! volume's side of a binding is written here; the claim, woken by that, does the rest.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};

use super::{claim_of, plan};
use crate::annotation::{SELECTED_NODE, annotation};
use crate::fit::{Wanted, capacity, class_name};

pub struct Matches;

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
        watches.on_change::<PersistentVolume>(|_, new| {
            new.filter(|volume| is_free(volume))
                .map(|volume| class_name(volume).to_owned())
                .into_iter()
                .collect()
        });
        watches.needs::<PersistentVolumeClaim>();
        watches.needs::<StorageClass>();
        watches.needs::<Node>();
    }

    fn observe(&self, caches: &Caches, class: &String) -> Option<Observed> {
        let mut volumes = caches.of::<PersistentVolume>().list();
        let kept: HashSet<Key> = volumes.iter().filter_map(|volume| claim_of(volume)).collect();
        volumes.retain(|volume| is_free(volume) && class_name(volume) == class);
        if volumes.is_empty() {
            return None;
        }
        volumes.sort_by(|a, b| {
            capacity(a).cmp(&capacity(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
        });
        let known = caches.of::<StorageClass>().get(&Key::new("", &**class));
        let waits = known.is_some_and(|class| plan::waits_for_consumer(&class));
        let mut claims = caches.of::<PersistentVolumeClaim>().list();
        claims.retain(|claim| {
            plan::class_name(claim) == class && is_waiting(claim) && !kept.contains(&key_of(&**claim))
        });
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

fn is_free(volume: &PersistentVolume) -> bool {
    volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none())
        && volume.metadata.deletion_timestamp.is_none()
}

/// Wants any volume that does, and an empty one.
fn is_waiting(claim: &PersistentVolumeClaim) -> bool {
    let spec = claim.spec.as_ref();
    plan::volume_name(claim).is_none()
        && claim.metadata.deletion_timestamp.is_none()
        && spec.is_some_and(|spec| spec.data_source.is_none() && spec.data_source_ref.is_none())
}
