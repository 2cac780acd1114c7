//! Claims: bound to the smallest volume that does, given one that is made for them, protected while pods use them, and
//! grown.
//!
//! Both sides of a binding name each other. The volume names the claim first, by UID and only if nobody has changed the
//! volume meanwhile: so two claims never have one volume, and whoever dies in between finds the volume that is kept for
//! the claim.

mod clones;
mod matches;
mod plan;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::api::storage::v1::{CSIStorageCapacity, StorageClass};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::local_volume;
use minik8s_meta::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};

use clones::Clones;
pub use matches::Matches;
pub use plan::waits_for_consumer;

use crate::annotation::{IS_DEFAULT, SELECTED_NODE, annotation};
use crate::fit::{Wanted, requested};
use crate::index::VolumeIndex;
use crate::{local, snapshot};

/// How many volumes that do not do are told of.
const NEAR: usize = 3;

#[derive(Default)]
pub struct Claims {
    volumes: Arc<VolumeIndex>,
    clones: Arc<Clones>,
}

pub struct Observed {
    claim: Arc<PersistentVolumeClaim>,
    class: Option<Arc<StorageClass>>,
    /// The class of claims that name none.
    default_class: Option<String>,
    /// The one that it names. If it names none: those that are kept for it, and the free one that does best or else some that
    /// do not.
    volumes: Vec<Arc<PersistentVolume>>,
    nodes: Vec<Arc<Node>>,
    /// What nodes have free for volumes of the class `local`; empty if it is another's.
    capacities: Vec<Arc<CSIStorageCapacity>>,
    /// Pods that use the claim on some node.
    users: Vec<String>,
    /// The claim whose content this one starts with, if it wants any and that is there.
    source: Option<Arc<PersistentVolumeClaim>>,
    source_volume: Option<Arc<PersistentVolume>>,
    /// The content of the snapshot that it starts with, if that is ready.
    snapshot: Option<Arc<VolumeSnapshotContent>>,
}

impl Controller for Claims {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "persistentvolume-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<PersistentVolumeClaim>();
        let clones = self.clones.clone();
        watches.on_change::<PersistentVolumeClaim>(move |old, new| clones.change(old, new));
        // Free volumes are dealt out by `Matches`.
        let (index, clones) = (self.volumes.clone(), self.clones.clone());
        watches.on_change::<PersistentVolume>(move |old, new| {
            index.change(old, new);
            let claims: Vec<Key> = old.into_iter().chain(new).filter_map(claim_of).collect();
            let copies: Vec<Key> = claims.iter().flat_map(|claim| clones.of(claim)).collect();
            [claims, copies].concat()
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            let came = new.is_some_and(local::is_ready) && !old.is_some_and(local::is_ready);
            match caches.upgrade().filter(|_| came) {
                Some(caches) => pending(&caches, |claim| needs_any_node(&caches, claim)),
                None => Vec::new(),
            }
        });
        watches.on::<CSIStorageCapacity>(|caches, _| pending(caches, |claim| needs_any_node(caches, claim)));
        watches.on::<StorageClass>(|caches, class| {
            let name = class.metadata.name.as_deref();
            pending(caches, |claim| {
                plan::class_name(claim).is_empty() || Some(plan::class_name(claim)) == name
            })
        });
        // Only the end of a pod, that it is shut down, or its way to a node, matters to its claims.
        watches.on_change::<Pod>(|old, new| {
            let place = |pod: Option<&Pod>| pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone());
            match (old, new) {
                (_, None) => old.map(claims_of).unwrap_or_default(),
                (_, Some(pod)) if place(old) != place(new) => claims_of(pod),
                (old, Some(pod)) if is_shut_down(pod) && !old.is_some_and(is_shut_down) => claims_of(pod),
                _ => Vec::new(),
            }
        });
        watches.on::<VolumeSnapshot>(|caches, snapshot| {
            let key = key_of(snapshot);
            pending(caches, |claim| snapshot::source_of(claim).as_ref() == Some(&key))
        });
        watches.needs::<VolumeSnapshotContent>();
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let claims = caches.of::<PersistentVolumeClaim>();
        let claim = claims.get(key)?;
        let volumes = caches.of::<PersistentVolume>();
        let class = caches.of::<StorageClass>().get(&Key::new("", plan::class_name(&claim)));
        let named = |name: &str| volumes.get(&Key::new("", name)).into_iter().collect();
        let source = plan::source_claim(&claim).and_then(|name| claims.get(&Key::new(&*key.namespace, name)));
        let source_volume =
            source.as_ref().and_then(|source| volumes.get(&Key::new("", plan::volume_name(source)?)));
        let classes = caches.of::<StorageClass>().list();
        let defaults = classes.iter().filter(|class| annotation(&class.metadata, IS_DEFAULT) == Some("true"));
        let newest =
            defaults.max_by_key(|class| class.metadata.creation_timestamp.clone().map(|time| time.0));
        Some(Observed {
            default_class: newest.and_then(|class| class.metadata.name.clone()),
            volumes: plan::volume_name(&claim)
                .map_or_else(|| self.candidates(caches, &claim, class.as_deref()), named),
            capacities: match &class {
                Some(class) if class.provisioner == local_volume::DRIVER && !plan::is_bound(&claim) => {
                    caches.of::<CSIStorageCapacity>().in_namespace(local_volume::CAPACITY_NAMESPACE)
                }
                _ => Vec::new(),
            },
            class,
            nodes: caches.of::<Node>().list(),
            users: if claim.metadata.deletion_timestamp.is_some() { users(caches, key) } else { Vec::new() },
            snapshot: snapshot::content_of(caches, &claim),
            source,
            source_volume,
            claim,
        })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        plan::plan(seen)
    }
}

impl Claims {
    /// What a claim that names no volume may get.
    fn candidates(
        &self,
        caches: &Caches,
        claim: &PersistentVolumeClaim,
        class: Option<&StorageClass>,
    ) -> Vec<Arc<PersistentVolume>> {
        let volumes = caches.of::<PersistentVolume>();
        let get = |name: &str| volumes.get(&Key::new("", name));
        let class_name = plan::class_name(claim);
        let selected =
            annotation(&claim.metadata, SELECTED_NODE).filter(|_| class.is_some_and(waits_for_consumer));
        let node = selected.and_then(|name| caches.of::<Node>().get(&Key::new("", name)));
        let wanted = Wanted::new(claim, node.as_deref());
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let best = self.volumes.find_free(class_name, requested(claim), uid, |name| match get(name) {
            Some(volume) if wanted.misfit(&volume).is_none() => ControlFlow::Break(volume),
            _ => ControlFlow::Continue(()),
        });
        let near =
            || self.volumes.largest_free_of(class_name, NEAR).iter().filter_map(|name| get(name)).collect();
        let kept = self.volumes.kept_for(&key_of(claim));
        let free = best.map_or_else(near, |volume| vec![volume]);
        kept.iter().filter_map(|name| get(name)).chain(free).collect()
    }
}

/// The claim that a volume is kept for.
pub fn claim_of(volume: &PersistentVolume) -> Option<Key> {
    let kept = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(Key::new(kept.namespace.as_deref()?, kept.name.as_deref()?))
}

/// The claims that a pod's volumes name, and those that it brings with it.
pub fn claims_of(pod: &Pod) -> Vec<Key> {
    let Key { namespace, name } = key_of(pod);
    let brought = |volume: &&Volume| volume.ephemeral.is_some();
    let brought = volumes_of(pod).filter(brought).map(|volume| format!("{name}-{}", volume.name));
    named_claims(pod).into_iter().chain(brought.map(|claim| Key::new(&*namespace, claim))).collect()
}

fn named_claims(pod: &Pod) -> Vec<Key> {
    let namespace = key_of(pod).namespace;
    let named = volumes_of(pod).filter_map(|volume| volume.persistent_volume_claim.as_ref());
    named.map(|source| Key::new(&*namespace, &*source.claim_name)).collect()
}

fn volumes_of(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

fn pending(caches: &Caches, wanted: impl Fn(&PersistentVolumeClaim) -> bool) -> Vec<Key> {
    let claims = caches.of::<PersistentVolumeClaim>().list();
    let is_pending = |claim: &&Arc<PersistentVolumeClaim>| !plan::is_bound(claim) && wanted(claim);
    claims.iter().filter(is_pending).map(|claim| key_of(&**claim)).collect()
}

/// Whether a claim gets a volume of the class `local` without a pod to wait for: where no node is ready, it waits for one.
fn needs_any_node(caches: &Caches, claim: &PersistentVolumeClaim) -> bool {
    let class = caches.of::<StorageClass>().get(&Key::new("", plan::class_name(claim)));
    class
        .filter(|class| class.provisioner == local_volume::DRIVER)
        .is_some_and(|class| !waits_for_consumer(&class) || snapshot::source_of(claim).is_some())
}

/// A pod that is on no node yet does not hold its claims: no agent starts it with one that is being deleted.
fn users(caches: &Caches, claim: &Key) -> Vec<String> {
    let pods = caches.of::<Pod>().in_namespace(&claim.namespace);
    let uses = |pod: &&Arc<Pod>| {
        let is_placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        // One that is deleted in the foreground waits itself for the claims that it brought.
        let is_held = |claims: Vec<Key>| claims.contains(claim);
        is_placed && if is_shut_down(pod) { is_held(named_claims(pod)) } else { is_held(claims_of(pod)) }
    };
    pods.iter().filter(uses).map(|pod| key_of(&**pod).name).collect()
}

/// Its node is done with it, or it was deleted by force: only finalizers keep the object.
fn is_shut_down(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0)
}
