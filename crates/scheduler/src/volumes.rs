//! What the scheduler needs to know of claims, volumes and storage classes.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, TopologySelectorTerm,
};
use k8s_openapi::api::storage::v1::StorageClass;
use minik8s_meta::Quantity;
use minik8s_runtime::{Key, Selector, key_of};

use crate::csi::Csi;
use crate::snapshot::{NodeInfo, NodeTerms, PodInfo};

/// Volumes of such a class are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

#[derive(Default)]
pub struct Volumes {
    claims: HashMap<Key, Arc<PersistentVolumeClaim>>,
    volumes: HashMap<String, Arc<PersistentVolume>>,
    classes: HashMap<String, Arc<StorageClass>>,
    pub csi: Csi,
}

/// How far a claim is on its way to a volume.
pub enum ClaimState<'a> {
    Missing,
    Deleted,
    /// Nobody has bound it, and that must happen first.
    Unbound,
    /// Another pod has it for itself alone.
    TakenBy(String),
    /// Its volume is chosen after the pod's node is.
    WaitsForConsumer(Offer<'a>),
    BoundTo(Reach),
}

/// The nodes a volume can be reached from.
pub struct Reach(Option<NodeTerms>);

impl Reach {
    fn of(volume: &PersistentVolume) -> Self {
        let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
        Reach(affinity.and_then(|affinity| affinity.required.as_ref()).map(NodeTerms::new))
    }

    pub fn admits(&self, node: &NodeInfo) -> bool {
        self.0.as_ref().is_none_or(|terms| terms.admits(node))
    }
}

/// Where a claim that waits could get its volume.
pub struct Offer<'a> {
    /// Where its class can make one; None if it makes none.
    made: Option<&'a [TopologySelectorTerm]>,
    /// Volumes that lie ready.
    ready: Vec<Reach>,
    /// Where the volume is whose content it starts with.
    source: Option<Reach>,
    room: Room<'a>,
}

/// What a volume that is to be made needs.
struct Room<'a> {
    csi: &'a Csi,
    class: &'a StorageClass,
    bytes: i64,
}

impl Room<'_> {
    fn admits(&self, node: &NodeInfo) -> bool {
        let class = self.class.metadata.name.as_deref().unwrap_or_default();
        self.csi.has_room(&self.class.provisioner, class, self.bytes, node)
    }
}

impl Offer<'_> {
    pub fn admits(&self, node: &NodeInfo) -> bool {
        let can_make = self.can_make(node) && self.room.admits(node);
        can_make || self.ready.iter().any(|reach| reach.admits(node))
    }

    /// Whether a volume could be made for the node if there were more storage.
    pub fn lacks_room(&self, node: &NodeInfo) -> bool {
        self.can_make(node) && !self.room.admits(node)
    }

    fn can_make(&self, node: &NodeInfo) -> bool {
        let made_here = self.made.is_some_and(|terms| {
            let meets = |term: &TopologySelectorTerm| {
                let mut labels = term.match_label_expressions.iter().flatten();
                labels.all(|wanted| {
                    node.label(&wanted.key).is_some_and(|label| wanted.values.iter().any(|v| v == label))
                })
            };
            terms.is_empty() || terms.iter().any(meets)
        });
        made_here && self.source.as_ref().is_none_or(|source| source.admits(node))
    }
}

impl Volumes {
    pub fn set_claim(&mut self, claim: Arc<PersistentVolumeClaim>) {
        self.claims.insert(key_of(&*claim), claim);
    }

    pub fn remove_claim(&mut self, key: &Key) {
        self.claims.remove(key);
    }

    pub fn set_volume(&mut self, volume: Arc<PersistentVolume>) {
        self.volumes.insert(key_of(&*volume).name, volume);
    }

    pub fn remove_volume(&mut self, name: &str) {
        self.volumes.remove(name);
    }

    pub fn set_class(&mut self, class: Arc<StorageClass>) {
        self.classes.insert(key_of(&*class).name, class);
    }

    pub fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    pub fn claim(&self, key: &Key) -> Option<&PersistentVolumeClaim> {
        self.claims.get(key).map(|claim| &**claim)
    }

    pub fn volume(&self, name: &str) -> Option<&PersistentVolume> {
        self.volumes.get(name).map(|volume| &**volume)
    }

    pub fn class(&self, name: &str) -> Option<&StorageClass> {
        self.classes.get(name).map(|class| &**class)
    }

    /// Names of the claims that a pod mounts, with those made for it from templates.
    pub fn claims_of(&self, pod: &PodInfo) -> Vec<String> {
        let volumes = pod.spec().and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
        volumes
            .filter_map(|volume| {
                let named = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.clone());
                let made = || volume.ephemeral.as_ref().map(|_| format!("{}-{}", pod.key.name, volume.name));
                named.or_else(made)
            })
            .collect()
    }

    /// Whether only one pod at a time may use the claim.
    pub fn is_exclusive(&self, key: &Key) -> bool {
        let spec = self.claims.get(key).and_then(|claim| claim.spec.as_ref());
        spec.is_some_and(|spec| spec.access_modes.iter().flatten().any(|mode| mode == "ReadWriteOncePod"))
    }

    pub fn state(&self, namespace: &str, claim: &str) -> ClaimState<'_> {
        let Some(found) = self.claims.get(&Key::new(namespace, claim)) else {
            return ClaimState::Missing;
        };
        if found.metadata.deletion_timestamp.is_some() {
            return ClaimState::Deleted;
        }
        let Some(spec) = &found.spec else { return ClaimState::Unbound };
        if let Some(volume) = spec.volume_name.as_deref().filter(|name| !name.is_empty()) {
            return match self.volumes.get(volume) {
                Some(volume) => ClaimState::BoundTo(Reach::of(volume)),
                None => ClaimState::Unbound,
            };
        }
        let class = spec.storage_class_name.as_deref().and_then(|name| self.classes.get(name));
        match class {
            Some(class) if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") => {
                let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
                let made = (class.provisioner != NO_PROVISIONER).then_some(topologies);
                // What starts with other content is made, never found.
                let ready = match spec.data_source.is_some() {
                    true => Vec::new(),
                    false => self.ready_for(spec, &found.metadata),
                };
                let bytes = amount(spec.resources.as_ref().and_then(|r| r.requests.as_ref()));
                let room = Room { csi: &self.csi, class, bytes };
                ClaimState::WaitsForConsumer(Offer {
                    made,
                    ready,
                    source: self.source_of(namespace, spec),
                    room,
                })
            }
            _ => ClaimState::Unbound,
        }
    }

    /// The volume of the claim that a claim is to be a copy of.
    fn source_of(&self, namespace: &str, claim: &PersistentVolumeClaimSpec) -> Option<Reach> {
        let source = claim.data_source.as_ref().filter(|source| source.kind == "PersistentVolumeClaim")?;
        let source = self.claims.get(&Key::new(namespace, &*source.name))?;
        let volume = source.spec.as_ref()?.volume_name.as_deref()?;
        self.volumes.get(volume).map(|volume| Reach::of(volume))
    }

    /// Volumes that nobody has, or that are kept for this very claim, and that do for it.
    fn ready_for(
        &self,
        claim: &PersistentVolumeClaimSpec,
        meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    ) -> Vec<Reach> {
        let wanted = amount(claim.resources.as_ref().and_then(|r| r.requests.as_ref()));
        let selector = claim.selector.as_ref().map(|selector| Selector::new(Some(selector)));
        let modes = claim.access_modes.as_deref().unwrap_or_default();
        let does = |volume: &&Arc<PersistentVolume>| {
            let Some(spec) = &volume.spec else { return false };
            let for_us = spec.claim_ref.as_ref().is_none_or(|kept| {
                kept.namespace == meta.namespace
                    && kept.name == meta.name
                    && kept.uid.as_ref().is_none_or(|uid| Some(uid) == meta.uid.as_ref())
            });
            let offered = spec.access_modes.as_deref().unwrap_or_default();
            for_us
                && volume.metadata.deletion_timestamp.is_none()
                && spec.storage_class_name == claim.storage_class_name
                && modes.iter().all(|mode| offered.contains(mode))
                && amount(spec.capacity.as_ref()) >= wanted
                && selector.as_ref().is_none_or(|s| s.matches(volume.metadata.labels.as_ref()))
        };
        self.volumes.values().filter(does).map(|volume| Reach::of(volume)).collect()
    }

    /// Claims of a pod whose volumes are chosen for the node it goes to.
    pub fn waiting_claims(&self, pod: &PodInfo) -> Vec<Arc<PersistentVolumeClaim>> {
        let names = self.claims_of(pod);
        names
            .iter()
            .filter(|name| matches!(self.state(&pod.key.namespace, name), ClaimState::WaitsForConsumer(_)))
            .filter_map(|name| self.claims.get(&Key::new(&*pod.key.namespace, &**name)).cloned())
            .collect()
    }
}

type Amounts = std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

fn amount(amounts: Option<&Amounts>) -> i64 {
    let storage = amounts.and_then(|amounts| amounts.get("storage"));
    storage.and_then(|quantity| Quantity::try_from(quantity).ok()).map_or(0, |quantity| quantity.value())
}
