//! Snapshots of volumes: a VolumeSnapshot gets its content, and says what became of it; both go together, or the content
//! stays, as its policy says.
//!
//! This is the part that is the cluster's own ("snapshot-controller" elsewhere). Asking drivers is the part of a driver's
//! csi-snapshotter, or of [`crate::csi`] for drivers without one and for our own classes. A snapshot of one namespace never
//! gets a content that names another's.

mod content;
pub mod kinds;
pub mod names;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::snapshot::{GROUP, VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};

pub use content::Contents;

pub struct Snapshots;

pub struct Observed {
    snapshot: Arc<VolumeSnapshot>,
    /// The one that it names, that it has, or that was made for it.
    content: Option<Arc<VolumeSnapshotContent>>,
    classes: Vec<Arc<VolumeSnapshotClass>>,
    claim: Option<Arc<PersistentVolumeClaim>>,
    volume: Option<Arc<PersistentVolume>>,
    /// Whether another snapshot of the claim is being made.
    has_siblings: bool,
    /// Whether a claim is being made of it.
    is_source: bool,
}

impl Controller for Snapshots {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "snapshot-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<VolumeSnapshot>();
        watches.on::<VolumeSnapshotContent>(|_, content| snapshot_of(content).into_iter().collect());
        watches.on::<PersistentVolumeClaim>(|caches, claim| {
            let own = key_of(claim);
            let snapshots = caches.of::<VolumeSnapshot>().in_namespace(&own.namespace);
            let of_claim = snapshots.iter().filter(|one| claim_of(one).as_ref() == Some(&own));
            let mut keys: Vec<Key> = of_claim.map(|one| key_of(&**one)).collect();
            keys.extend(source_of(claim));
            keys
        });
        watches.on::<VolumeSnapshotClass>(|caches, _| {
            let all = caches.of::<VolumeSnapshot>().list();
            all.iter().filter(|one| bound_name(one).is_none()).map(|one| key_of(&**one)).collect()
        });
        watches.needs::<PersistentVolume>();
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let snapshots = caches.of::<VolumeSnapshot>();
        let snapshot = snapshots.get(key)?;
        let name = snapshot.spec.source.volume_snapshot_content_name.clone();
        let name = name.or_else(|| bound_name(&snapshot).map(str::to_owned));
        let name = name.unwrap_or_else(|| names::content_name(&snapshot));
        let claims = caches.of::<PersistentVolumeClaim>();
        let claim = claim_of(&snapshot).and_then(|claim| claims.get(&claim));
        let volume = claim.as_ref().and_then(|claim| claim.spec.as_ref()?.volume_name.clone());
        let is_sibling = |one: &Arc<VolumeSnapshot>| {
            one.metadata.uid != snapshot.metadata.uid
                && claim_of(one).is_some_and(|claim| Some(claim) == claim_of(&snapshot))
                && !is_ready(one)
                && one.metadata.deletion_timestamp.is_none()
        };
        let is_made_of_it = |claim: &Arc<PersistentVolumeClaim>| {
            source_of(claim).as_ref() == Some(key)
                && claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_none())
        };
        Some(Observed {
            content: caches.of::<VolumeSnapshotContent>().get(&Key::new("", name)),
            classes: caches.of::<VolumeSnapshotClass>().list(),
            volume: volume.and_then(|name| caches.of::<PersistentVolume>().get(&Key::new("", name))),
            has_siblings: snapshots.in_namespace(&key.namespace).iter().any(is_sibling),
            is_source: snapshot.metadata.deletion_timestamp.is_some()
                && claims.in_namespace(&key.namespace).iter().any(is_made_of_it),
            claim,
            snapshot,
        })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

fn bound_name(snapshot: &VolumeSnapshot) -> Option<&str> {
    snapshot.status.as_ref()?.bound_volume_snapshot_content_name.as_deref()
}

pub fn is_ready(snapshot: &VolumeSnapshot) -> bool {
    snapshot.status.as_ref().is_some_and(|status| status.ready_to_use == Some(true))
}

fn claim_of(snapshot: &VolumeSnapshot) -> Option<Key> {
    let name = snapshot.spec.source.persistent_volume_claim_name.as_deref()?;
    Some(Key::new(snapshot.metadata.namespace.as_deref()?, name))
}

fn snapshot_of(content: &VolumeSnapshotContent) -> Option<Key> {
    let kept = &content.spec.volume_snapshot_ref;
    Some(Key::new(kept.namespace.as_deref()?, kept.name.as_deref()?))
}

/// The snapshot of the same namespace that a claim starts with.
pub fn source_of(claim: &PersistentVolumeClaim) -> Option<Key> {
    let source = claim.spec.as_ref()?.data_source.as_ref()?;
    let is_snapshot = source.kind == "VolumeSnapshot" && source.api_group.as_deref() == Some(GROUP);
    is_snapshot.then(|| Key::new(claim.metadata.namespace.as_deref().unwrap_or_default(), &*source.name))
}

/// The content that a claim starts with, if it starts with a snapshot that is ready.
pub fn content_of(caches: &Caches, claim: &PersistentVolumeClaim) -> Option<Arc<VolumeSnapshotContent>> {
    let snapshot = caches.of::<VolumeSnapshot>().get(&source_of(claim)?)?;
    let content = caches.of::<VolumeSnapshotContent>().get(&Key::new("", bound_name(&snapshot)?))?;
    let is_whole = names::is_of(&content, &snapshot) && is_ready(&snapshot) && names::is_ready(&content);
    (is_whole && snapshot.metadata.deletion_timestamp.is_none()).then_some(content)
}
